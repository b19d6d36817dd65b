//! A key that was denied is not asked for again before that can help.

mod denial;
mod table;

use std::fmt;
use std::sync::Arc;

use tidegate_core::{All, Capabilities, Decision, Key, Op, Request, Scope, Store, StoreError};

use crate::clock::{Clock, SteadyClock};
use denial::Denial;
use table::{Place, Table};

/// A store whose denials are remembered until their `retry_after`: whoever asks for the same key under the same quota and
/// for as much or more is denied here meanwhile, without a call, and told what is left to wait.
///
/// So a client that does not stop costs the store one call for each time that something comes back, and no more.
///
/// - **Only `limit`** is answered, and only where the quota's rate denies it. `check`, `reserve`, leases and
///   [`Store::apply_all`] are asked of the store.
/// - **What comes back early is seen late.** A `refund` or `reset` through this store is seen at once. One in another
///   process, or through another store, is seen when the denial is over.
/// - **Times** are measured here. A denial is remembered from when the store was asked and told from when it had answered:
///   it never lasts longer than the store said, and who waits as long as it is told is not too early. For more than was
///   denied it is told when that is there at the latest. `remaining` is what it was.
/// - **Neither around [`Leased`](crate::Leased) nor within**: it answers denials by itself, and tells some of them later than need be,
///   and asks for whole batches, whose denials say nothing about less.
/// - **Room** is for about as many keys as [`Denials::max_keys`] says, about 200 bytes each, taken at once. When there is
///   none, a denial is forgotten, and the store is asked again.
///
/// ```
/// use tidegate::resilience::Denials;
/// use tidegate::{Limiter, MemoryStore, Quota, minutes};
///
/// let store = Denials::new(MemoryStore::new()); // or one that is far away
/// let limiter = Limiter::builder().limit("login", Quota::fixed_window(5, minutes(1))?).store(store).build()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Denials<S> {
    store: S,
    table: Table,
    clock: Arc<dyn Clock>,
}

impl<S> Denials<S> {
    /// A store around `store` with the defaults.
    pub fn new(store: S) -> Self {
        Denials { store, table: Table::new(10_000), clock: Arc::new(SteadyClock) }
    }

    /// For how many keys a denial is remembered: 10,000 unless said otherwise. With 0, for none.
    #[must_use]
    pub fn max_keys(mut self, keys: usize) -> Self {
        self.table = Table::new(keys);
        self
    }

    /// What is counted by: a clock that nobody can set unless said otherwise. With one that is set back, a denial may last
    /// longer by as much.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// How many denials are held, those included that are over and not replaced yet.
    pub fn held(&self) -> usize {
        self.table.len()
    }

    /// The store around which this one is.
    pub fn inner(&self) -> &S {
        &self.store
    }

    /// The answer that is remembered, or what has to be done about the store's.
    fn begin<'a>(&'a self, request: &'a Request<'a>) -> Result<Decision, Pending<'a>> {
        let place = match request.op {
            Op::Limit(cost) if !self.table.is_off() => {
                let now = self.clock.now();
                match self.table.answer(request, cost, now) {
                    Ok(decision) => return Ok(decision),
                    Err(place) => Some((place, now)),
                }
            }
            _ => None,
        };
        Err(Pending { table: &self.table, clock: &*self.clock, request, place })
    }
}

/// A request that the store is asked.
struct Pending<'a> {
    table: &'a Table,
    clock: &'a dyn Clock,
    request: &'a Request<'a>,
    /// Where a denial is remembered, and when it was asked for.
    place: Option<(Place, tidegate_core::Timestamp)>,
}

impl Pending<'_> {
    /// Remembers the answer, if it is to be.
    fn end(self, result: &Result<Decision, StoreError>) {
        let Ok(decision) = result else { return };
        if decision.allowed() {
            admitted(self.table, self.request);
            return;
        }
        let (Some((place, asked)), Op::Limit(cost)) = (self.place, self.request.op) else { return };
        let known = self.clock.now();
        if let Some(denial) = Denial::of(self.request.quota, cost, decision, asked, known) {
            self.table.remember(place, denial, known);
        }
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        // Whatever came of it: an error and a caller that has gone away say nothing about what was done.
        if gives_back(self.request) {
            self.table.forget(self.request);
        }
    }
}

/// Sees that a request was admitted.
fn admitted(table: &Table, request: &Request<'_>) {
    if matches!(request.op, Op::Limit(_) | Op::Reserve(_)) {
        table.admitted(request);
    }
}

/// Whether a key may have more afterwards.
fn gives_back(request: &Request<'_>) -> bool {
    matches!(request.op, Op::Refund(_) | Op::Reset)
}

impl<S: fmt::Debug> fmt::Debug for Denials<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Denials").field("store", &self.store).field("table", &self.table).finish_non_exhaustive()
    }
}

impl<S: Store> Store for Denials<S> {
    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }

    fn answers_at_once(&self) -> bool {
        self.store.answers_at_once()
    }

    fn prefetch(&self, scope: &Scope, key: &Key<'_>) {
        self.store.prefetch(scope, key);
    }

    fn apply_now(&self, request: &Request<'_>) -> Option<Result<Decision, StoreError>> {
        match self.begin(request) {
            Ok(decision) => Some(Ok(decision)),
            Err(pending) => {
                let result = self.store.apply_now(request)?;
                pending.end(&result);
                Some(result)
            }
        }
    }

    async fn apply(&self, request: &Request<'_>) -> Result<Decision, StoreError> {
        match self.begin(request) {
            Ok(decision) => Ok(decision),
            Err(pending) => {
                let result = self.store.apply(request).await;
                pending.end(&result);
                result
            }
        }
    }

    async fn apply_all(&self, requests: &[Request<'_>]) -> Result<All, StoreError> {
        let result = self.store.apply_all(requests).await;
        if result.as_ref().is_ok_and(All::allowed) {
            requests.iter().for_each(|request| admitted(&self.table, request));
        }
        result
    }

    async fn apply_each(&self, requests: &[Request<'_>]) -> Vec<Result<Decision, StoreError>> {
        if requests.iter().any(gives_back) {
            // They are in order: what is asked for after it may be admitted for that.
            let _pending: Vec<_> =
                requests.iter().filter(|request| gives_back(request)).map(|r| self.begin(r)).collect();
            let answers = self.store.apply_each(requests).await;
            let decided = requests.iter().zip(&answers);
            let allowed = decided.filter(|(_, answer)| answer.as_ref().is_ok_and(Decision::allowed));
            allowed.for_each(|(request, _)| admitted(&self.table, request));
            return answers;
        }
        let begun: Vec<_> = requests.iter().map(|request| self.begin(request)).collect();
        let asked: Vec<_> = requests.iter().zip(&begun).filter(|(_, begun)| begun.is_err()).map(|(r, _)| *r).collect();
        // A store that is not asked is not called.
        let answers = if asked.is_empty() { Vec::new() } else { self.store.apply_each(&asked).await };
        let mut answers = answers.into_iter();
        let answer = |begun: Result<Decision, Pending<'_>>| match begun {
            Ok(decision) => Ok(decision),
            Err(pending) => {
                let result = answers.next().expect("an answer for each request");
                pending.end(&result);
                result
            }
        };
        begun.into_iter().map(answer).collect()
    }

    async fn close(&self) {
        self.store.close().await;
    }
}

/// A test's time is not this store's: nothing is remembered of it.
#[cfg(feature = "testing")]
impl<S: tidegate_core::Testing> tidegate_core::Testing for Denials<S> {
    async fn apply_at(&self, request: &Request<'_>, at: tidegate_core::Timestamp) -> Result<Decision, StoreError> {
        self.store.apply_at(request, at).await
    }

    async fn apply_all_at(&self, requests: &[Request<'_>], at: tidegate_core::Timestamp) -> Result<All, StoreError> {
        self.store.apply_all_at(requests, at).await
    }

    async fn held_at(&self, at: tidegate_core::Timestamp) -> Option<usize> {
        self.store.held_at(at).await
    }
}
