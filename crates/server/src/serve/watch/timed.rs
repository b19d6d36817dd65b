//! A store whose calls are timed.

use std::future::Future;
use std::sync::Arc;

use tidegate::{All, Capabilities, Decision, Key, Request, Scope, Store, StoreError, Testing, Timestamp};
use tokio::time::Instant;

use super::calls::Calls;

/// A store whose calls are timed, for the dashboard. As with metrics, a call that its caller drops is not seen, so this
/// belongs around a timeout.
#[derive(Debug)]
pub(crate) struct Timed<S> {
    store: S,
    calls: Arc<Calls>,
}

impl<S> Timed<S> {
    pub(crate) fn new(store: S, calls: Arc<Calls>) -> Self {
        Timed { store, calls }
    }

    async fn timed<T>(&self, work: impl Future<Output = T>, errors: impl Fn(&T) -> usize) -> T {
        let began = Instant::now();
        let answer = work.await;
        self.calls.record(began.elapsed(), errors(&answer));
        answer
    }
}

impl<S: Store> Store for Timed<S> {
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
        let began = Instant::now();
        let answer = self.store.apply_now(request)?;
        self.calls.record(began.elapsed(), usize::from(answer.is_err()));
        Some(answer)
    }

    async fn apply(&self, request: &Request<'_>) -> Result<Decision, StoreError> {
        self.timed(self.store.apply(request), |answer| usize::from(answer.is_err())).await
    }

    async fn apply_all(&self, requests: &[Request<'_>]) -> Result<All, StoreError> {
        self.timed(self.store.apply_all(requests), |answer| usize::from(answer.is_err())).await
    }

    async fn apply_each(&self, requests: &[Request<'_>]) -> Vec<Result<Decision, StoreError>> {
        self.timed(self.store.apply_each(requests), |answers| answers.iter().filter(|one| one.is_err()).count()).await
    }

    async fn close(&self) {
        self.store.close().await;
    }
}

impl<S: Testing> Testing for Timed<S> {
    async fn apply_at(&self, request: &Request<'_>, at: Timestamp) -> Result<Decision, StoreError> {
        self.timed(self.store.apply_at(request, at), |answer| usize::from(answer.is_err())).await
    }

    async fn apply_all_at(&self, requests: &[Request<'_>], at: Timestamp) -> Result<All, StoreError> {
        self.timed(self.store.apply_all_at(requests, at), |answer| usize::from(answer.is_err())).await
    }

    async fn held_at(&self, at: Timestamp) -> Option<usize> {
        self.store.held_at(at).await
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tidegate::{Limiter, MemoryStore, Quota, StoreErrorKind, seconds};

    use super::*;

    /// Answers one request as its store does, some time later, and several not at all.
    struct Later(MemoryStore, Duration);

    fn broken() -> StoreError {
        StoreError::new(StoreErrorKind::Unavailable, "not now")
    }

    impl Store for Later {
        fn capabilities(&self) -> Capabilities {
            self.0.capabilities()
        }

        fn apply_now(&self, _request: &Request<'_>) -> Option<Result<Decision, StoreError>> {
            None
        }

        async fn apply(&self, request: &Request<'_>) -> Result<Decision, StoreError> {
            tokio::time::sleep(self.1).await;
            self.0.apply(request).await
        }

        async fn apply_all(&self, _requests: &[Request<'_>]) -> Result<All, StoreError> {
            Err(broken())
        }

        async fn apply_each(&self, requests: &[Request<'_>]) -> Vec<Result<Decision, StoreError>> {
            requests.iter().map(|_| Err(broken())).collect()
        }

        async fn close(&self) {}
    }

    #[tokio::test(start_paused = true)]
    async fn calls_are_timed_and_errors_are_counted() {
        let calls = Arc::new(Calls::default());
        let store = Timed::new(Later(MemoryStore::new(), Duration::from_millis(8)), Arc::clone(&calls));
        let quota = Quota::token_bucket(9, seconds(1)).expect("a quota");
        let limiter = Limiter::builder().limit("api", quota).limit("login", quota).store(store).build().expect("built");
        let _ = limiter.limit("api", "u1").await.expect("decided");
        calls.tick();
        limiter.all([limiter.limit("api", "u1"), limiter.limit("login", "u1")]).await.expect_err("broken");
        let each = limiter.each([limiter.limit("api", "u1"), limiter.limit("login", "u1")]).await;
        assert!(each.iter().all(Result::is_err));
        calls.tick();
        let samples = calls.samples();
        assert_eq!((samples[0].calls, samples[0].errors), (1, 0));
        assert!((8_000..=9_000).contains(&samples[0].p99.expect("called")), "{samples:?}");
        assert_eq!((samples[1].calls, samples[1].errors), (2, 3));
    }
}
