//! Quota that a process takes in batches and spends without asking.

mod builder;
mod hand;
#[cfg(test)]
mod model;
mod refill;
mod rules;
mod table;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{
    All, Capabilities, Decision, Key, Op, Request, Scope, Store, StoreError, StoreErrorKind, Timestamp,
};
use tokio::runtime::Handle;

pub use builder::LeasedBuilder;
use refill::Inner;
use rules::{Rules, units};
use table::{Ended, Entry, Order, Waiting};

/// How often a caller waits for a refill that others may be quicker to spend, before it asks for itself.
const WAITS: usize = 2;

/// A store whose quota is taken in batches and spent in process: for keys that are asked about more often than a server can
/// answer. Not to be confused with the leases of a [`concurrency`](crate::Quota::concurrency) limit, which are places at
/// work: those pass through here as they are.
///
/// ```
/// use tidegate::{Leased, Limiter, MemoryStore, Quota, seconds};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let shared = MemoryStore::new(); // or RedisStore::connect(..), in a `Timeout`
/// let store = Leased::builder().expected_replicas(16).build(shared);
/// let limiter = Limiter::builder().limit("api", Quota::token_bucket(10_000, seconds(1))?).store(store).build()?;
/// // At the end: limiter.close().await gives back what is in hand.
/// # Ok(()) }
/// ```
///
/// # The bound
///
/// With `n` processes and `batch` the most that one of them has in hand, which is `capacity / expected_replicas` rounded
/// down, and less where less is used in 20 milliseconds:
///
/// | algorithm | admitted, at most |
/// | --- | --- |
/// | `token_bucket` | capacity + rate * t + n * batch in any span t; with no more processes than expected, 2 * capacity + rate * t |
/// | `fixed_window` | in each window what the store admits: the limit itself |
/// | `sliding_window` | what the store admits, in each of its buckets: the bound of the algorithm |
///
/// What a bucket has given out was counted by the store, and only spent later; so in the long run it is never more than the
/// rate. What was taken in a window, or in a bucket of a sliding one, is dropped before it ends. When that is, the store has
/// said: it does not matter by how much clocks differ, as long as they run at the same speed, to 1 part in 256. A clock
/// that is set back while nobody looks at it can keep a lease for as much longer.
///
/// Not leased, and asked of the store as they are: `sliding_log`, `concurrency`, quotas of less than 2 for each process,
/// windows of less than half a second (for `sliding_window`, its buckets), costs above a batch, `reserve`, all or nothing, and
/// keys for which there is no room. A small limit, such as 5 logins a minute with three processes or more, stays exact.
///
/// # What decisions say
///
/// - `remaining` is what is in hand and what the store had left when it was last asked. Others may have taken that since.
/// - A denial is answered in process until its `retry_after`, but for one question in a second; so what somebody else gives
///   back is seen late. `retry_after` is when the store would be asked again and have it, if nobody else takes anything: it
///   may be up to 15 milliseconds late, never too early. To a larger cost than the one that was denied in a window, it says
///   when the whole capacity is there.
/// - `reset_after` and `next_after` are the store's, as they were then.
/// - `check` of more than is in hand is the store's answer alone: it may deny what `limit` admits with what is in hand.
///
/// # Giving back
///
/// What nobody has used for a second is given back, and everything on [`Store::close`], which `Limiter::close` calls. A
/// window's quota is given back only while 5 seconds of it are left, so that nothing arrives after its end: a return that is
/// held up for longer than that counts for the next window. What is in hand when the store is dropped, which cannot wait, or
/// when the process dies, is lost: a batch, until time brings it or the window ends. `reset` forgets what this process has in
/// hand; other processes still spend theirs.
///
/// # Errors
///
/// What is in hand is spent, whether the store answers or not. Where it has to be asked, its error goes to everybody who
/// waits. Refills are requests, too, and wait as long as the store does: give it a [`Timeout`](crate::resilience::Timeout).
/// [`Resilience`](crate::resilience::Resilience) can be around this store, with a timeout that is some times as long, or
/// within it. What a limit with the policy `local` admits on its own is not leased.
///
/// # Runtime
///
/// Refills and returns run on the tokio runtime in which the store was built, and go on when the caller has gone. Built outside
/// of one, it takes that of who asks: then everybody waits for a refill as long as that runtime has something else to do.
/// Without any nothing is fetched: what is in hand is spent, and for the rest the store is asked.
pub struct Leased<S> {
    inner: Arc<Inner<S>>,
}

impl Leased<std::convert::Infallible> {
    /// Settings for one.
    pub fn builder() -> LeasedBuilder {
        LeasedBuilder::default()
    }
}

/// What a caller does who wants to take.
enum Taken {
    Answer(Decision),
    Wait(Waiting),
    Straight,
}

impl<S: Store + 'static> Leased<S> {
    /// A store around `store` with the defaults.
    pub fn new(store: S) -> Self {
        LeasedBuilder::default().build(store)
    }

    /// The store around which this one is.
    pub fn inner(&self) -> &S {
        &self.inner.store
    }

    /// For how many keys something is in hand, or was a moment ago.
    pub fn keys(&self) -> usize {
        self.inner.table.keys()
    }

    /// What can be answered in process: none when the store has to be asked, and then nothing was done.
    // All of it in one piece, so that the answer is put together where it goes to and is never copied: what was written a
    // moment ago is slow to read as a whole.
    #[inline(always)]
    fn in_process(&self, request: &Request<'_>) -> Option<Decision> {
        let cost = units(request)?;
        let mut place = self.inner.table.place(request);
        let entry = place.entry(request)?;
        let now = self.inner.sleeper.now();
        if let Op::Check(_) = request.op {
            return entry.hand.check(&entry.owner.rules, cost, now);
        }
        let answer = entry.hand.take(&entry.owner.rules, cost, now)?;
        let low = entry.hand.is_low(now);
        let order = if low { self.next_batch(entry, request, now) } else { None };
        drop(place);
        if let Some((order, runtime)) = order {
            self.inner.begin(order, &runtime);
        }
        Some(answer)
    }

    /// The order of the next batch of what is nearly spent.
    #[inline(never)]
    fn next_batch(&self, entry: &mut Entry, request: &Request<'_>, now: Timestamp) -> Option<(Order, Handle)> {
        if self.inner.table.is_closed() {
            return None;
        }
        let runtime = self.inner.runtime()?;
        Some((entry.order(1, request.on_store_error, now)?, runtime))
    }

    /// Takes in process, or begins a refill, or finds one on its way, for who still waits for one.
    fn take(&self, request: &Request<'_>, cost: u64, rules: Rules, waits: bool) -> Taken {
        let Some(runtime) = self.inner.runtime() else { return Taken::Straight };
        let mut order = None;
        let taken = self.inner.table.with_new(request, rules, &*self.inner.sleeper, |entry| {
            let now = self.inner.sleeper.now();
            if let Some(answer) = entry.hand.take(&rules, cost, now) {
                return Taken::Answer(answer);
            }
            if !waits {
                return Taken::Straight;
            }
            order = entry.order(cost, request.on_store_error, now);
            entry.wait(cost).map_or(Taken::Straight, Taken::Wait)
        });
        if let Some(order) = order {
            self.inner.begin(order, &runtime);
        }
        taken.unwrap_or(Taken::Straight)
    }

    /// Takes from what is in hand, or what a refill brings; none when the store has to be asked.
    async fn spend(&self, request: &Request<'_>) -> Option<Result<Decision, StoreError>> {
        let (Op::Limit(_), Some(cost)) = (request.op, units(request)) else { return None };
        let rules = Rules::new(request.quota, self.inner.replicas).filter(|rules| cost <= rules.most)?;
        for wait in 0..=WAITS {
            let waiting = match self.take(request, cost, rules, wait < WAITS) {
                Taken::Answer(decision) => return Some(Ok(decision)),
                Taken::Wait(waiting) => waiting,
                Taken::Straight => return None,
            };
            match waiting.end().await {
                Some(Ended::Broken(decision, policy)) => {
                    return (policy == request.on_store_error).then_some(Ok(decision));
                }
                Some(Ended::Failed(error, policy)) => {
                    return (policy == request.on_store_error).then_some(Err(error));
                }
                _ => {}
            }
        }
        None
    }

    /// What the store says. Whoever gave back, or forgot, looks again.
    async fn straight(&self, request: &Request<'_>) -> Result<Decision, StoreError> {
        // Whoever is dropped before the answer comes may have been served all the same.
        let _looks_again = self.asking(std::slice::from_ref(request));
        self.inner.store.apply(request).await
    }

    /// The store is asked about these. What is in hand under other quotas is none of theirs.
    fn asking<'a>(&'a self, requests: &'a [Request<'a>]) -> LooksAgain<'a, S> {
        let takes = requests.iter().filter(|request| !matches!(request.op, Op::Check(_)));
        takes.for_each(|request| self.inner.table.drop_other(request));
        LooksAgain { leased: self, requests }
    }

    fn changed(&self, request: &Request<'_>) {
        match request.op {
            Op::Refund(_) => self.inner.table.with(request, |entry| entry.hand.given_back()),
            Op::Reset => self.inner.table.with(request, |entry| entry.hand.forget()),
            _ => None,
        };
    }
}

/// Sees to it that what is in hand is looked at again, however a call to the store ends.
struct LooksAgain<'a, S: Store + 'static> {
    leased: &'a Leased<S>,
    requests: &'a [Request<'a>],
}

impl<S: Store + 'static> Drop for LooksAgain<'_, S> {
    fn drop(&mut self) {
        self.requests.iter().for_each(|request| self.leased.changed(request));
    }
}

fn unanswered() -> StoreError {
    StoreError::new(StoreErrorKind::Corrupt, "the store has answered less than it was asked")
}

impl<S: fmt::Debug> fmt::Debug for Leased<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys = self.inner.table.keys();
        f.debug_struct("Leased").field("store", &self.inner.store).field("keys", &keys).finish_non_exhaustive()
    }
}

impl<S: Store + 'static> Store for Leased<S> {
    fn capabilities(&self) -> Capabilities {
        self.inner.store.capabilities()
    }

    /// No: what is not leased yet is asked for, whatever the store is.
    fn answers_at_once(&self) -> bool {
        false
    }

    fn prefetch(&self, scope: &Scope, key: &Key<'_>) {
        self.inner.store.prefetch(scope, key);
    }

    #[inline]
    fn apply_now(&self, request: &Request<'_>) -> Option<Result<Decision, StoreError>> {
        if let Some(decision) = self.in_process(request) {
            return Some(Ok(decision));
        }
        // What could be leased is waited for, were the store to answer at once, too.
        if let (Op::Limit(_), true) = (request.op, Rules::new(request.quota, self.inner.replicas).is_some()) {
            return None;
        }
        // Without an answer nothing was done.
        let answer = self.inner.store.apply_now(request)?;
        drop(self.asking(std::slice::from_ref(request)));
        Some(answer)
    }

    async fn apply(&self, request: &Request<'_>) -> Result<Decision, StoreError> {
        if let Some(decision) = self.in_process(request) {
            return Ok(decision);
        }
        match self.spend(request).await {
            Some(answer) => answer,
            None => self.straight(request).await,
        }
    }

    async fn apply_all(&self, requests: &[Request<'_>]) -> Result<All, StoreError> {
        let _looks_again = self.asking(requests);
        self.inner.store.apply_all(requests).await
    }

    /// What is in hand is spent; the rest is asked of the store in one call. All of it is where something is given back or
    /// forgotten: what comes after that has to see it.
    async fn apply_each(&self, requests: &[Request<'_>]) -> Vec<Result<Decision, StoreError>> {
        if requests.iter().any(|request| matches!(request.op, Op::Refund(_) | Op::Reset)) {
            let _looks_again = self.asking(requests);
            return self.inner.store.apply_each(requests).await;
        }
        let mut answers: Vec<_> = requests.iter().map(|request| self.in_process(request).map(Ok)).collect();
        let asked =
            || requests.iter().zip(&answers).filter(|(_, answer)| answer.is_none()).map(|(request, _)| *request);
        let asked: Vec<_> = asked().collect();
        if asked.is_empty() {
            return answers.into_iter().flatten().collect();
        }
        let _looks_again = self.asking(&asked);
        let mut told = self.inner.store.apply_each(&asked).await.into_iter();
        for answer in answers.iter_mut().filter(|answer| answer.is_none()) {
            *answer = Some(told.next().unwrap_or_else(|| Err(unanswered())));
        }
        answers.into_iter().flatten().collect()
    }

    async fn close(&self) {
        for mut ends in self.inner.table.close() {
            // An error means that nobody is there any more who could end it.
            let _ = ends.wait_for(Option::is_some).await;
        }
        self.inner.give_back(Duration::ZERO).await;
        self.inner.store.close().await;
    }
}

/// What passes the time in passes by: a lease has its own clock.
#[cfg(feature = "testing")]
impl<S: tidegate_core::Testing + 'static> tidegate_core::Testing for Leased<S> {
    async fn apply_at(&self, request: &Request<'_>, at: tidegate_core::Timestamp) -> Result<Decision, StoreError> {
        self.inner.store.apply_at(request, at).await
    }

    async fn apply_all_at(&self, requests: &[Request<'_>], at: tidegate_core::Timestamp) -> Result<All, StoreError> {
        self.inner.store.apply_all_at(requests, at).await
    }

    async fn held_at(&self, at: tidegate_core::Timestamp) -> Option<usize> {
        self.inner.store.held_at(at).await
    }
}
