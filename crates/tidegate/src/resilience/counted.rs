//! Decisions by limit and outcome.

use tidegate_core::{All, Capabilities, Decision, Key, Op, Request, Scope, Store, StoreError};

use super::observed::outcome;
use super::telemetry;

/// A store whose decisions are counted, by limit and outcome: [`tidegate_decisions_total`](super#metrics). Without the
/// feature `metrics` nothing is.
///
/// What asks to take is counted: `limit`, `reserve` and `admit`. Of several requests that were denied all or nothing,
/// those are counted that denied it; the others took nothing. What a limit does before it asks its store, such as its
/// deny list, is not seen here; what a limit in shadow mode would have denied is. Nor is a spread limit seen that looked
/// first, found the store broken and left it at that: `tidegate_fallback_total` has it.
#[derive(Debug)]
pub struct Counted<S> {
    store: S,
}

impl<S> Counted<S> {
    /// A store around `store`.
    pub fn new(store: S) -> Self {
        telemetry::describe();
        Counted { store }
    }

    /// The store around which this one is.
    pub fn inner(&self) -> &S {
        &self.store
    }
}

fn count(request: &Request<'_>, result: Result<&Decision, &StoreError>) {
    if matches!(request.op, Op::Limit(_) | Op::Reserve(_) | Op::Admit(_)) {
        let reason = result.ok().and_then(Decision::reason);
        telemetry::decided(request.scope.limit(), outcome(result.map(Decision::allowed)), reason);
    }
}

fn counted(request: &Request<'_>, result: Result<Decision, StoreError>) -> Result<Decision, StoreError> {
    count(request, result.as_ref());
    result
}

fn counted_all(requests: &[Request<'_>], result: Result<All, StoreError>) -> Result<All, StoreError> {
    match &result {
        Ok(all) => {
            let decided = requests.iter().zip(all.decisions());
            let taken = all.allowed();
            decided.filter(|(_, decision)| taken || !decision.allowed()).for_each(|(request, decision)| {
                count(request, Ok(decision));
            });
        }
        Err(error) => requests.iter().for_each(|request| count(request, Err(error))),
    }
    result
}

impl<S: Store> Store for Counted<S> {
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
        self.store.apply_now(request).map(|result| counted(request, result))
    }

    async fn apply(&self, request: &Request<'_>) -> Result<Decision, StoreError> {
        counted(request, self.store.apply(request).await)
    }

    async fn apply_all(&self, requests: &[Request<'_>]) -> Result<All, StoreError> {
        counted_all(requests, self.store.apply_all(requests).await)
    }

    async fn apply_each(&self, requests: &[Request<'_>]) -> Vec<Result<Decision, StoreError>> {
        let results = self.store.apply_each(requests).await;
        requests.iter().zip(&results).for_each(|(request, result)| count(request, result.as_ref()));
        results
    }

    async fn close(&self) {
        self.store.close().await;
    }
}

#[cfg(feature = "testing")]
impl<S: tidegate_core::Testing> tidegate_core::Testing for Counted<S> {
    async fn apply_at(&self, request: &Request<'_>, at: tidegate_core::Timestamp) -> Result<Decision, StoreError> {
        counted(request, self.store.apply_at(request, at).await)
    }

    async fn apply_all_at(&self, requests: &[Request<'_>], at: tidegate_core::Timestamp) -> Result<All, StoreError> {
        counted_all(requests, self.store.apply_all_at(requests, at).await)
    }

    async fn held_at(&self, at: tidegate_core::Timestamp) -> Option<usize> {
        self.store.held_at(at).await
    }
}
