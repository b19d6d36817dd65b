//! Deciding in process while the store is broken.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use tidegate_core::{All, Decision, Op, Quota, Reason, Request, Store, StoreError, Timestamp};

use crate::clock::Clock;
use crate::store::memory::{MemoryStats, MemoryStore};

/// For how long no request may have failed before the store counts as back. One success is not enough: a store that
/// fails every other request would let each of those through under a new quota.
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
}

impl Local {
    pub(super) fn new(replicas: NonZeroU32, max_keys: usize, clock: Arc<dyn Clock>) -> Self {
        Local { replicas, max_keys, clock, outage: ArcSwapOption::empty() }
    }

    pub(super) fn decide(&self, request: &Request<'_>) -> Result<Decision, StoreError> {
        let quota = request.quota.share(self.replicas);
        let decision = self.outage().store.apply_now(&Request { quota: &quota, ..*request });
        decision.expect("the memory store never waits").map(|decision| not_never(decision, request))
    }

    pub(super) async fn decide_all(&self, requests: &[Request<'_>]) -> Result<All, StoreError> {
        let quotas: Vec<Quota> = requests.iter().map(|request| request.quota.share(self.replicas)).collect();
        let shares = requests.iter().zip(&quotas).map(|(request, quota)| Request { quota, ..*request });
        let all = self.outage().store.apply_all(&shares.collect::<Vec<_>>()).await?;
        let decisions = all.into_decisions().into_iter().zip(requests);
        Ok(All::new(decisions.map(|(decision, request)| not_never(decision, request)).collect()))
    }

    /// The store has answered: what was decided here is dropped, if it has been quiet for long enough.
    pub(super) fn answered(&self) {
        let outage = self.outage.load();
        if let Some(found) = &*outage {
            let asked = Timestamp::from_micros(found.asked.load(Ordering::Relaxed));
            if self.clock.now().since(asked) >= QUIET {
                self.outage.compare_and_swap(&outage, None);
            }
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

    fn begin(&self, now: u64) -> Arc<Outage> {
        let store = MemoryStore::builder().max_keys(self.max_keys).clock(Arc::clone(&self.clock)).build();
        let begun = Arc::new(Outage { store, asked: AtomicU64::new(now) });
        // Whoever is first; the others use that one.
        let found = self.outage.compare_and_swap(&None::<Arc<Outage>>, Some(Arc::clone(&begun)));
        found.as_ref().map_or(begun, Arc::clone)
    }
}

/// A cost that is only more than the share can be had again once the store is back: that is why it is denied, and not
/// for ever.
fn not_never(decision: Decision, request: &Request<'_>) -> Decision {
    let (Op::Limit(cost) | Op::Check(cost) | Op::Reserve(cost)) = request.op else { return decision };
    let fits = cost.get() <= request.quota.parts().capacity.into();
    if !fits || decision.reason() != Some(Reason::CostExceedsCapacity) {
        return decision;
    }
    let mut parts = decision.into_parts();
    parts.reason = Some(Reason::Store);
    parts.into()
}
