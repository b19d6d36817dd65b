//! Deciding in process while the store is broken.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use tidegate_core::{All, Decision, Op, Quota, Reason, Request, Store, StoreError, Timestamp};

use crate::clock::Clock;
use crate::store::memory::{MemoryStats, MemoryStore};

/// For how long nobody may have asked here before the store counts as back. One success is not enough: with a store that
/// fails every other request, a table would be made for each of those.
const QUIET: Duration = Duration::from_secs(1);

/// A store in process under a share of each quota, there only while it is needed.
pub(super) struct Local {
    pub(super) replicas: NonZeroU32,
    pub(super) max_keys: usize,
    pub(super) clock: Arc<dyn Clock>,
    outage: ArcSwapOption<Outage>,
}

/// A time in which the store is broken.
struct Outage {
    store: MemoryStore,
    /// When it was last asked, in microseconds.
    asked: AtomicU64,
    /// When every key in it will be as good as new, in microseconds. Until then it stays: whoever dropped it earlier would
    /// give these keys a new quota with the next failure.
    new_at: AtomicU64,
}

impl Outage {
    /// Whether there is nothing in it that is worth keeping.
    fn is_over(&self, now: Timestamp) -> bool {
        let [asked, new_at] = [&self.asked, &self.new_at].map(|at| Timestamp::from_micros(at.load(Ordering::Relaxed)));
        now.since(asked) >= QUIET && now >= new_at
    }
}

impl Local {
    pub(super) fn new(replicas: NonZeroU32, max_keys: usize, clock: Arc<dyn Clock>) -> Self {
        Local { replicas, max_keys, clock, outage: ArcSwapOption::empty() }
    }

    pub(super) fn decide(&self, request: &Request<'_>) -> Result<Decision, StoreError> {
        let quota = request.quota.share(self.replicas);
        let op = match request.op {
            // The store may have given it out, and cannot say: whoever holds on to it is in flight here.
            Op::Renew(lease) => Op::Admit(lease),
            op => op,
        };
        let outage = self.outage();
        let decision = outage.store.apply_now(&Request { quota: &quota, op, ..*request });
        let decision = decision.expect("the memory store never waits")?;
        self.keep(&outage, decision.reset_after());
        Ok(owing(decision, request))
    }

    pub(super) async fn decide_all(&self, requests: &[Request<'_>]) -> Result<All, StoreError> {
        let quotas: Vec<Quota> = requests.iter().map(|request| request.quota.share(self.replicas)).collect();
        let shares = requests.iter().zip(&quotas).map(|(request, quota)| Request { quota, ..*request });
        let outage = self.outage();
        let all = outage.store.apply_all(&shares.collect::<Vec<_>>()).await?;
        self.keep(&outage, all.decisions().iter().map(Decision::reset_after).max().unwrap_or_default());
        let decisions = all.into_decisions().into_iter().zip(requests);
        Ok(All::new(decisions.map(|(decision, request)| owing(decision, request)).collect()))
    }

    /// The store has answered: what was decided here is dropped, if that changes nothing.
    pub(super) fn answered(&self) {
        let outage = self.outage.load();
        if outage.as_ref().is_some_and(|outage| outage.is_over(self.clock.now())) {
            self.outage.compare_and_swap(&outage, None);
        }
    }

    pub(super) fn stats(&self) -> Option<MemoryStats> {
        self.outage.load().as_ref().map(|outage| outage.store.stats())
    }

    /// The outage that is going on, which begins with this call if there is none.
    fn outage(&self) -> Arc<Outage> {
        let now = self.clock.now().as_micros();
        let outage = self.outage.load_full().unwrap_or_else(|| self.begin(now));
        outage.asked.store(now, Ordering::Relaxed);
        outage
    }

    /// Keeps what was decided at least until this long from now.
    fn keep(&self, outage: &Outage, span: Duration) {
        outage.new_at.fetch_max(self.clock.now().saturating_add(span).as_micros(), Ordering::Relaxed);
    }

    fn begin(&self, now: u64) -> Arc<Outage> {
        let store = MemoryStore::builder().max_keys(self.max_keys).clock(Arc::clone(&self.clock)).build();
        let begun = Arc::new(Outage { store, asked: AtomicU64::new(now), new_at: AtomicU64::new(now) });
        // Whoever is first; the others use that one.
        let found = self.outage.compare_and_swap(&None::<Arc<Outage>>, Some(Arc::clone(&begun)));
        found.as_ref().map_or(begun, Arc::clone)
    }
}

/// A decision that is another once the store is back says so: a cost that is only more than the share is not denied for
/// ever, and what was reset here is not there.
fn owing(decision: Decision, request: &Request<'_>) -> Decision {
    let owes = match request.op {
        Op::Limit(cost) | Op::Check(cost) | Op::Reserve(cost) => {
            let fits = cost.get() <= u64::from(request.quota.parts().capacity);
            fits && decision.reason() == Some(Reason::CostExceedsCapacity)
        }
        Op::Reset => true,
        _ => false,
    };
    if !owes {
        return decision;
    }
    let mut parts = decision.into_parts();
    parts.reason = Some(Reason::Store);
    parts.into()
}
