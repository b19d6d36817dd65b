//! A limiter with a limit of each policy, over a store that breaks.

use std::future::{Future, IntoFuture};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use tidegate::resilience::{BreakerState, Resilience, Resilient};
use tidegate::{Decision, Error, Limit, Limiter, OnStoreError, Quota, Reason, Store, days, millis};
use tidegate_servers::wait_until;
use tokio::runtime::{Builder, Runtime};
use tokio::time::Instant;

use crate::load::{Load, Log};
use crate::stalls;

/// What a key may have in a test: hardly anything comes back while it runs.
pub(crate) const CAPACITY: u64 = 40;
/// What one of [`REPLICAS`] may admit by itself.
pub(crate) const SHARE: u64 = CAPACITY / REPLICAS as u64;
const REPLICAS: u32 = 4;

/// How long a call may take.
pub(crate) const TIMEOUT: Duration = millis(50);
/// How long the breaker leaves the store alone.
const PAUSE: Duration = millis(200);

/// One runtime for all tests, beside the threads of the tests: those may block.
static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap());

pub(crate) fn run<T>(work: impl Future<Output = T>) -> T {
    RUNTIME.block_on(work)
}

pub(crate) fn spawn<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> tokio::task::JoinHandle<T> {
    RUNTIME.spawn(work)
}

/// Lets what is going on go on for a while.
pub(crate) fn pause(span: Duration) {
    run(async { tokio::time::sleep(span).await });
}

/// The limiter, and a look at the wrappers below it.
pub(crate) struct Service<S> {
    pub(crate) limiter: Limiter,
    store: Arc<Resilient<S>>,
}

impl<S: Store + 'static> Service<S> {
    pub(crate) fn over(store: S, timeout: Duration) -> Self {
        stalls::watch();
        let resilience = Resilience::default().timeout(timeout).breaker(5, PAUSE).expected_replicas(REPLICAS);
        let store = Arc::new(resilience.build(store));
        let quota = Quota::token_bucket(1, days(300)).unwrap().capacity(CAPACITY).unwrap();
        let limits = OnStoreError::ALL.map(|policy| (policy.as_str(), Limit::new(quota).on_store_error(policy)));
        let limiter = Limiter::builder().prefix("fault").limits(limits).store(Arc::clone(&store)).build().unwrap();
        Service { limiter, store }
    }

    pub(crate) fn breaker(&self) -> BreakerState {
        self.store.breaker()
    }

    /// Calls that do not end before they are told to, for so many keys under each policy.
    pub(crate) fn load(&self, keys: usize) -> Load {
        Load::start(&self.limiter, keys)
    }

    /// The store goes away for a while under load and comes back: meanwhile nobody gets an answer of it and each policy holds
    /// its promise, and afterwards it decides again. How much it admitted in all is for the caller to look at.
    pub(crate) fn outage(&self, leave: impl FnOnce(), come_back: impl FnOnce()) -> Outage {
        let load = self.load(1);
        load.uses_up();
        let struck = Instant::now();
        leave();
        let left = Instant::now();
        // A signal is not there at once; that calls fail shows that this one is.
        self.notices();
        let noticed = Instant::now();
        // Longer than the breaker waits, so that it can ask in vain.
        pause(2 * PAUSE);
        load.is_left_to_the_policies();
        let away = Instant::now();
        come_back();
        self.resumes(&keys(1));
        let resumed = Instant::now();
        load.uses_up();
        let log = load.stop();
        log.assert_away(noticed, away);
        log.assert_share(struck, away);
        log.assert_share_was_served(away);
        log.assert_served(resumed);
        Outage { log, struck, left }
    }

    /// Comes back when the breaker has seen that the store is away.
    pub(crate) fn notices(&self) {
        assert!(wait_until(|| self.breaker() == BreakerState::Open), "the breaker does not open");
    }

    /// Comes back when the store decides again about these keys under every policy, and the breaker lets everybody ask.
    pub(crate) fn resumes(&self, keys: &[String]) {
        let by_store = |policy: OnStoreError, key: &str| {
            let answer = run(self.limiter.limit(policy.as_str(), key).into_future());
            matches!(Answer::of(policy, answer), Answer::Store { .. })
        };
        let resumed = wait_until(|| {
            OnStoreError::ALL.into_iter().all(|policy| keys.iter().all(|key| by_store(policy, key)))
                && self.breaker() == BreakerState::Closed
        });
        assert!(resumed, "the service does not resume: the breaker is {:?}", self.breaker());
    }
}

/// A time in which the store was away, and what the callers have seen.
pub(crate) struct Outage {
    pub(crate) log: Log,
    /// Before it left, and when it had.
    pub(crate) struck: Instant,
    pub(crate) left: Instant,
}

/// Who decided, and whether with a yes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    Store { allowed: bool },
    Policy { allowed: bool },
}

impl Answer {
    /// What an answer is, which has to be one that the policy promises.
    pub(crate) fn of(policy: OnStoreError, answer: Result<Decision, Error>) -> Self {
        match (policy, answer) {
            (OnStoreError::Closed, Err(error)) if error.is_retryable() => Answer::Policy { allowed: false },
            (_, Err(error)) => panic!("{policy:?}: {error}"),
            (OnStoreError::Open, Ok(decision)) if decision.reason() == Some(Reason::Store) => {
                assert!(decision.allowed(), "open: {decision:?}");
                Answer::Policy { allowed: true }
            }
            (OnStoreError::Local, Ok(decision)) if decision.limit() == SHARE => {
                Answer::Policy { allowed: decision.allowed() }
            }
            (_, Ok(decision)) => {
                let expected = if decision.allowed() { None } else { Some(Reason::Rate) };
                assert_eq!((decision.limit(), decision.reason()), (CAPACITY, expected), "{policy:?}: {decision:?}");
                Answer::Store { allowed: decision.allowed() }
            }
        }
    }
}

/// A quota of each algorithm, of which nothing comes back while a test runs.
pub(crate) fn quotas() -> [Quota; 4] {
    quotas_in(days(300))
}

/// A quota of each algorithm, for a period.
pub(crate) fn quotas_in(period: Duration) -> [Quota; 4] {
    let quotas = [Quota::token_bucket, Quota::fixed_window, Quota::sliding_window, Quota::sliding_log];
    quotas.map(|quota| quota(CAPACITY, period).unwrap())
}

/// The names of the keys of a load.
pub(crate) fn keys(count: usize) -> Vec<String> {
    (0..count).map(|key| format!("key-{key}")).collect()
}
