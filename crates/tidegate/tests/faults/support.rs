//! A limiter with a limit of each policy, over a store that breaks.

use std::future::{Future, IntoFuture};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use tidegate::resilience::{BreakerState, Resilience, Resilient};
use tidegate::{Decision, Error, Limit, Limiter, OnStoreError, Quota, Reason, Store, days, millis, seconds};
use tidegate_servers::wait_until;
use tokio::runtime::{Builder, Runtime};
use tokio::time::Instant;

use crate::load::{Load, LoadLog};
use crate::stalls;

/// The capacity of a key: hardly anything is replenished while a test runs.
pub(crate) const CAPACITY: u64 = 40;
/// The units that one of [`REPLICAS`] may admit by itself.
pub(crate) const LOCAL_SHARE: u64 = CAPACITY / REPLICAS as u64;
const REPLICAS: u32 = 4;

/// How long a call may take.
pub(crate) const TIMEOUT: Duration = millis(50);
/// How long the breaker stays open.
const BREAKER_PAUSE: Duration = millis(200);

/// One runtime for all tests, beside the threads of the tests: those may block.
static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap());

pub(crate) fn run<T>(work: impl Future<Output = T>) -> T {
    RUNTIME.block_on(work)
}

pub(crate) fn spawn<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> tokio::task::JoinHandle<T> {
    RUNTIME.spawn(work)
}

/// Blocks this thread for a while, and not the runtime.
pub(crate) fn sleep(span: Duration) {
    run(async { tokio::time::sleep(span).await });
}

/// A limiter, and the resilience wrappers below it.
pub(crate) struct Service<S> {
    pub(crate) limiter: Limiter,
    store: Arc<Resilient<S>>,
}

impl<S: Store + 'static> Service<S> {
    pub(crate) fn new(store: S, timeout: Duration) -> Self {
        stalls::start_watch();
        // A key that was denied would stay denied, and the policies would have nothing to answer.
        let resilience = Resilience::default().timeout(timeout).breaker(5, BREAKER_PAUSE).expected_replicas(REPLICAS);
        let resilience = resilience.cache_denials(0);
        let store = Arc::new(resilience.build(store));
        let quota = Quota::token_bucket(1, days(300)).unwrap().capacity(CAPACITY).unwrap();
        let limits = OnStoreError::ALL.map(|policy| (policy.as_str(), Limit::new(quota).on_store_error(policy)));
        let limiter = Limiter::builder().prefix("fault").limits(limits).store(Arc::clone(&store)).build().unwrap();
        Service { limiter, store }
    }

    pub(crate) fn breaker(&self) -> BreakerState {
        self.store.breaker()
    }

    /// Starts calls for so many keys under each policy, until [`Load::stop`].
    pub(crate) fn start_load(&self, keys: usize) -> Load {
        Load::start(&self.limiter, keys)
    }

    /// Makes the store unavailable for a while under load. Asserts that meanwhile it answers no call and each policy
    /// holds its promise, and that afterwards it decides again. The caller checks how much the store admitted in all.
    pub(crate) fn run_outage(&self, interrupt: impl FnOnce(), restore: impl FnOnce()) -> Outage {
        let load = self.start_load(1);
        load.wait_until_used_up();
        let began = Instant::now();
        interrupt();
        let interrupted = Instant::now();
        // A signal takes time to arrive; failing calls show that it has.
        self.wait_for_open_breaker();
        let noticed = Instant::now();
        // Longer than the breaker's pause, so that it probes in vain.
        sleep(2 * BREAKER_PAUSE);
        load.wait_until_policies_answer();
        let ended = Instant::now();
        restore();
        self.wait_for_recovery(&keys(1));
        let resumed = Instant::now();
        load.wait_until_used_up();
        let log = load.stop();
        log.assert_unavailable(noticed, ended);
        log.assert_local_share(began, ended);
        log.assert_local_share_used(ended);
        log.assert_served(resumed);
        Outage { log, began, interrupted }
    }

    /// Returns when the breaker has noticed that the store is unavailable.
    pub(crate) fn wait_for_open_breaker(&self) {
        assert!(wait_until(|| self.breaker() == BreakerState::Open), "the breaker does not open");
    }

    /// Returns when the store decides again about these keys under every policy, and the breaker is closed.
    pub(crate) fn wait_for_recovery(&self, keys: &[String]) {
        let by_store = |policy: OnStoreError, key: &str| {
            let answer = run(self.limiter.limit(policy.as_str(), key).into_future());
            matches!(Answer::from_result(policy, answer), Answer::Store { .. })
        };
        let resumed = wait_until(|| {
            OnStoreError::ALL.into_iter().all(|policy| keys.iter().all(|key| by_store(policy, key)))
                && self.breaker() == BreakerState::Closed
        });
        assert!(resumed, "the service does not resume: the breaker is {:?}", self.breaker());
    }
}

/// An outage of the store, and the log of the calls.
pub(crate) struct Outage {
    pub(crate) log: LoadLog,
    /// Before the store was made unavailable.
    pub(crate) began: Instant,
    /// When the store had been made unavailable.
    pub(crate) interrupted: Instant,
}

/// The source of an answer, and whether it allowed the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    Store {
        allowed: bool,
    },
    Policy {
        allowed: bool,
    },
    /// Denied at the beginning of an outage, when a call that times out may be one of a store with too much to do.
    Overloaded,
}

impl Answer {
    /// Classifies an answer, and asserts that the policy promises it.
    pub(crate) fn from_result(policy: OnStoreError, answer: Result<Decision, Error>) -> Self {
        match (policy, answer) {
            (OnStoreError::Closed, Err(error)) if error.is_retryable() => Answer::Policy { allowed: false },
            (_, Err(error)) => panic!("{policy:?}: {error}"),
            (OnStoreError::Open | OnStoreError::Local, Ok(decision))
                if decision.reason() == Some(Reason::Store) && !decision.allowed() =>
            {
                assert_eq!(decision.retry_after(), Some(seconds(1)), "{policy:?}: {decision:?}");
                Answer::Overloaded
            }
            (OnStoreError::Open, Ok(decision)) if decision.reason() == Some(Reason::Store) => {
                Answer::Policy { allowed: true }
            }
            (OnStoreError::Local, Ok(decision)) if decision.limit() == LOCAL_SHARE => {
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

/// A quota of each algorithm, which replenishes nothing while a test runs.
pub(crate) fn quotas() -> [Quota; 4] {
    quotas_with_period(days(300))
}

/// A quota of each algorithm, for a period.
pub(crate) fn quotas_with_period(period: Duration) -> [Quota; 4] {
    let quotas = [Quota::token_bucket, Quota::fixed_window, Quota::sliding_window, Quota::sliding_log];
    quotas.map(|quota| quota(CAPACITY, period).unwrap())
}

/// The names of the keys of a load.
pub(crate) fn keys(count: usize) -> Vec<String> {
    (0..count).map(|key| format!("key-{key}")).collect()
}
