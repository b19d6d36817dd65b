//! A store on tokio's paused time that is away for a while, in one of several ways.

use std::future::pending;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use tidegate::store::{BoxFuture, Capabilities, Op, Request, Scope};
use tidegate::{
    Clock, Decision, JointDecision, Key, MemoryStore, OnStoreError, Quota, Sleeper, Store, StoreError, StoreErrorKind,
    Timestamp, millis,
};
use tokio::sync::oneshot;
use tokio::time::Instant;

/// The time of a call on its way to the store.
pub(crate) const LATENCY: Duration = millis(1);

/// The paused time of the test's runtime.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PausedClock(Instant);

impl PausedClock {
    pub(crate) fn start() -> Self {
        PausedClock(Instant::now())
    }
}

impl Clock for PausedClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(1_800_000_000_000).saturating_add(self.0.elapsed())
    }
}

impl Sleeper for PausedClock {
    fn sleep(&self, span: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(span))
    }
}

/// The way in which a store is away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outage {
    /// Every call fails at once.
    Refused,
    /// Calls are lost.
    Lost,
    /// Calls are applied, and their answers are lost.
    Unanswered,
    /// Calls wait in the store, and are applied in order when it continues, even those whose callers have left.
    Paused,
}

impl Outage {
    pub(crate) const ALL: [Outage; 4] = [Outage::Refused, Outage::Lost, Outage::Unanswered, Outage::Paused];
}

/// A store that is away for a while.
pub(crate) struct UnsteadyStore {
    store: MemoryStore,
    /// The time that each request of a call takes.
    work: Duration,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    outage: Option<Outage>,
    /// Calls that wait for the end of a pause.
    waiting: Vec<(Vec<OwnedRequest>, oneshot::Sender<Answers>)>,
}

type Answers = Vec<Result<Decision, StoreError>>;

impl UnsteadyStore {
    pub(crate) fn new(clock: PausedClock) -> Self {
        let store = MemoryStore::builder().max_keys(64).clock(clock).build();
        UnsteadyStore { store, work: Duration::ZERO, state: Mutex::default() }
    }

    /// Sets how long each request of a call takes, one after the other. Such a store is never away.
    pub(crate) fn with_work(self, work: Duration) -> Self {
        UnsteadyStore { work, ..self }
    }

    pub(crate) fn begin(&self, outage: Outage) {
        self.lock().outage = Some(outage);
    }

    pub(crate) fn end(&self) {
        let mut state = self.lock();
        state.outage = None;
        for (requests, answer) in state.waiting.drain(..) {
            let requests: Vec<_> = requests.iter().map(OwnedRequest::borrow).collect();
            // An error means that the caller has left.
            let _ = answer.send(self.apply_now(&requests));
        }
    }

    async fn call(&self, requests: &[Request<'_>]) -> Answers {
        tokio::time::sleep(LATENCY).await;
        if !self.work.is_zero() {
            return self.apply_slowly(requests).await;
        }
        let answer = {
            let mut state = self.lock();
            match state.outage {
                None => return self.apply_now(requests),
                Some(Outage::Refused) => {
                    let error = StoreError::new(StoreErrorKind::Unavailable, "unplugged");
                    return vec![Err(error); requests.len()];
                }
                Some(Outage::Lost) => None,
                Some(Outage::Unanswered) => {
                    self.apply_now(requests);
                    None
                }
                Some(Outage::Paused) => {
                    let (sender, receiver) = oneshot::channel();
                    state.waiting.push((requests.iter().map(OwnedRequest::new).collect(), sender));
                    Some(receiver)
                }
            }
        };
        match answer {
            Some(answer) => answer.await.expect("the store ends its pause"),
            None => pending().await,
        }
    }

    async fn apply_slowly(&self, requests: &[Request<'_>]) -> Answers {
        let mut answers = Vec::new();
        for request in requests {
            tokio::time::sleep(self.work).await;
            answers.extend(self.apply_now(std::slice::from_ref(request)));
        }
        answers
    }

    fn apply_now(&self, requests: &[Request<'_>]) -> Answers {
        requests.iter().map(|request| self.store.try_apply(request).expect("it is in memory")).collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

/// The parts of a [`Request`] that outlive its caller.
struct OwnedRequest {
    scope: Scope,
    key: Key<'static>,
    quota: Quota,
    op: Op,
    on_store_error: OnStoreError,
}

impl OwnedRequest {
    fn new(request: &Request<'_>) -> Self {
        let Request { scope, key, quota, op, on_store_error } = *request;
        OwnedRequest { scope: scope.clone(), key: key.clone().into_owned(), quota: *quota, op, on_store_error }
    }

    fn borrow(&self) -> Request<'_> {
        let OwnedRequest { scope, key, quota, op, on_store_error } = self;
        Request { scope, key, quota, op: *op, on_store_error: *on_store_error }
    }
}

impl Store for UnsteadyStore {
    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }

    fn try_apply(&self, _: &Request<'_>) -> Option<Result<Decision, StoreError>> {
        None
    }

    async fn apply(&self, request: &Request<'_>) -> Result<Decision, StoreError> {
        self.call(std::slice::from_ref(request)).await.remove(0)
    }

    async fn apply_all(&self, requests: &[Request<'_>]) -> Result<JointDecision, StoreError> {
        self.store.apply_all(requests).await
    }

    async fn apply_each(&self, requests: &[Request<'_>]) -> Vec<Result<Decision, StoreError>> {
        self.call(requests).await
    }

    async fn close(&self) {}
}
