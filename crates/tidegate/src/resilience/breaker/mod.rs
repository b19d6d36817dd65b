//! A store that keeps failing is left alone for a while.

mod circuit;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{All, Capabilities, Decision, Key, Request, Scope, Store, StoreError, StoreErrorKind};

use crate::clock::{Clock, SystemClock};
use circuit::{Circuit, Health, Pass};

/// A store that is not asked any more once it has failed several times in a row, until a pause has passed.
///
/// Closed, calls pass. After [`Breaker::failures`] failures in a row it opens, and calls are refused at once with
/// [`StoreErrorKind::Unavailable`]. When [`Breaker::pause`] has passed it is half open: exactly one call goes through
/// to try. Its success closes the circuit, its failure opens it again. A trying call that is dropped before it ends has
/// found out nothing, and the next one tries. One that has not ended after another pause, because the store hangs or nobody
/// polls it, has found out nothing either: put a [`Timeout`](super::Timeout) inside, so that it ends before.
///
/// A failure is an error that a retry can help with. [`StoreErrorKind::Corrupt`] and [`StoreErrorKind::Contended`] count as
/// successes: they are about one key, and it takes a store that works to say so. [`StoreErrorKind::Unsupported`] counts as
/// nothing: a store can say it without asking its server. A batch has failed when none of its requests was answered, or
/// when time ran out before its end.
pub struct Breaker<S> {
    store: S,
    circuit: Circuit,
}

/// Whether calls pass a [`Breaker`]. In the order of their numbers in metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BreakerState {
    /// They do.
    Closed,
    /// One is trying whether the store is back. The others are refused.
    HalfOpen,
    /// They are refused; the first one after the pause will try.
    Open,
}

impl<S> Breaker<S> {
    /// A breaker around `store`, which metrics call `name`: closed, with the defaults.
    pub fn new(store: S, name: &str) -> Self {
        Breaker { store, circuit: Circuit::new(name, 5, Duration::from_secs(1), Arc::new(SystemClock)) }
    }

    /// How many failures in a row open it: 5 unless said otherwise. 0 counts as 1.
    #[must_use]
    pub fn failures(mut self, failures: u32) -> Self {
        self.circuit.failures = failures;
        self
    }

    /// How long it stays open before a call may try again: 1 second unless said otherwise.
    #[must_use]
    pub fn pause(mut self, pause: Duration) -> Self {
        self.circuit.pause = pause;
        self
    }

    /// What the pause is measured on: the system's clock unless said otherwise.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.circuit.clock = Arc::new(clock);
        self
    }

    /// Whether calls pass.
    pub fn state(&self) -> BreakerState {
        self.circuit.state()
    }

    /// The store around which this one is.
    pub fn inner(&self) -> &S {
        &self.store
    }

    async fn guarded<T>(&self, call: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        let pass = self.circuit.enter()?;
        Self::reported(pass, call.await)
    }

    fn reported<T>(pass: Pass<'_>, result: Result<T, StoreError>) -> Result<T, StoreError> {
        pass.report(Health::of(&result), result.as_ref().err());
        result
    }
}

impl Health {
    fn of<T>(result: &Result<T, StoreError>) -> Self {
        match result {
            Err(error) if error.kind() == StoreErrorKind::Contended => Health::Good,
            Err(error) if error.is_retryable() => Health::Bad,
            Err(error) if error.kind() == StoreErrorKind::Unsupported => Health::Unknown,
            _ => Health::Good,
        }
    }

    /// One answer is enough to know that the store is there, but not that it is quick enough: a batch whose time runs out is
    /// given up from there on.
    fn of_each<T>(results: &[Result<T, StoreError>]) -> Self {
        if results.last().is_some_and(|last| matches!(last, Err(error) if error.kind() == StoreErrorKind::Timeout)) {
            return Health::Bad;
        }
        let any = |health| results.iter().any(|result| Health::of(result) == health);
        [Health::Good, Health::Bad].into_iter().find(|health| any(*health)).unwrap_or(Health::Unknown)
    }
}

impl<S: fmt::Debug> fmt::Debug for Breaker<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Breaker").field("store", &self.store).field("state", &self.state()).finish_non_exhaustive()
    }
}

impl<S: Store> Store for Breaker<S> {
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
        let pass = match self.circuit.enter() {
            Ok(pass) => pass,
            Err(error) => return Some(Err(error)),
        };
        // None drops the pass: nothing was done.
        let result = self.store.apply_now(request)?;
        Some(Self::reported(pass, result))
    }

    async fn apply(&self, request: &Request<'_>) -> Result<Decision, StoreError> {
        self.guarded(self.store.apply(request)).await
    }

    async fn apply_all(&self, requests: &[Request<'_>]) -> Result<All, StoreError> {
        self.guarded(self.store.apply_all(requests)).await
    }

    async fn apply_each(&self, requests: &[Request<'_>]) -> Vec<Result<Decision, StoreError>> {
        match self.circuit.enter() {
            Ok(pass) => {
                let results = self.store.apply_each(requests).await;
                let error = results.iter().rev().find_map(|result| result.as_ref().err());
                pass.report(Health::of_each(&results), error);
                results
            }
            Err(error) => requests.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    async fn close(&self) {
        self.store.close().await;
    }
}

#[cfg(feature = "testing")]
impl<S: tidegate_core::Testing> tidegate_core::Testing for Breaker<S> {
    async fn apply_at(&self, request: &Request<'_>, at: tidegate_core::Timestamp) -> Result<Decision, StoreError> {
        self.guarded(self.store.apply_at(request, at)).await
    }

    async fn apply_all_at(&self, requests: &[Request<'_>], at: tidegate_core::Timestamp) -> Result<All, StoreError> {
        self.guarded(self.store.apply_all_at(requests, at)).await
    }

    async fn held_at(&self, at: tidegate_core::Timestamp) -> Option<usize> {
        self.store.held_at(at).await
    }
}
