//! A file that is locked for long, with `Resilience` around the store.

use std::sync::Arc;
use std::time::Duration;

use tidegate::resilience::{BreakerState, Resilience, Resilient};
use tidegate::sqlite::SqliteStore;
use tidegate::{Limit, Limiter, MAX_PERIOD, OnStoreError, Quota, Reason, millis, seconds};
use tokio::time::Instant;

use crate::support::{TempFolder, decide, run};

const CAPACITY: u64 = 40;
const REPLICAS: u32 = 4;
const TIMEOUT: Duration = millis(50);
const BREAKER_PAUSE: Duration = millis(100);

/// The time by which a call may exceed its timeout on a busy machine. It is far below the busy timeout of five minutes.
const SCHEDULING_SLACK: Duration = millis(1_000);

/// The timeout of calls that the store must answer, even on a busy machine.
const LONG_TIMEOUT: Duration = seconds(30);

fn service(folder: &TempFolder, timeout: Duration) -> (Limiter, Arc<Resilient<SqliteStore>>) {
    let resilience =
        Resilience::default().name("sqlite").timeout(timeout).breaker(3, BREAKER_PAUSE).expected_replicas(REPLICAS);
    let store = Arc::new(resilience.build(folder.store()));
    let quota = Quota::token_bucket(1, MAX_PERIOD).unwrap().capacity(CAPACITY).unwrap();
    let limits = OnStoreError::ALL.map(|policy| (policy.as_str(), Limit::new(quota).on_store_error(policy)));
    let limiter = Limiter::builder().limits(limits).bare_store(Arc::clone(&store)).build().unwrap();
    (limiter, store)
}

#[test]
fn long_lock_applies_on_store_error_until_it_ends() {
    let folder = TempFolder::new();
    let ((limiter, store), (long_limiter, _)) = (service(&folder, TIMEOUT), service(&folder, LONG_TIMEOUT));
    for policy in OnStoreError::ALL {
        assert_eq!(decide(long_limiter.limit(policy.as_str(), "alice")).unwrap().remaining(), CAPACITY - 1);
    }

    let lock = folder.lock();
    for _ in 0..5 {
        let began = Instant::now();
        let open = decide(limiter.limit("open", "alice")).unwrap();
        assert_eq!((open.allowed(), open.reason()), (true, Some(Reason::Store)));
        let error = decide(limiter.limit("closed", "alice")).unwrap_err();
        assert!(error.is_retryable(), "{error}");
        let local = decide(limiter.limit("local", "alice")).unwrap();
        assert_eq!(local.limit(), CAPACITY / u64::from(REPLICAS));
        assert!(began.elapsed() < 3 * TIMEOUT + SCHEDULING_SLACK, "{:?}", began.elapsed());
    }
    assert_ne!(store.breaker(), BreakerState::Closed);
    drop(lock);

    let resumed = run(async {
        for _ in 0..500 {
            let decision = limiter.limit("closed", "bob").await;
            if decision.is_ok() && store.breaker() == BreakerState::Closed {
                return true;
            }
            tokio::time::sleep(millis(10)).await;
        }
        false
    });
    assert!(resumed, "the breaker is {:?}", store.breaker());
    // Calls that were given up spent nothing.
    for policy in OnStoreError::ALL {
        assert_eq!(decide(long_limiter.limit(policy.as_str(), "alice")).unwrap().remaining(), CAPACITY - 2);
    }
}

#[test]
fn misuse_is_an_error_under_every_policy() {
    let folder = TempFolder::new();
    let (limiter, _) = service(&folder, LONG_TIMEOUT);
    let two = Quota::token_bucket(2, MAX_PERIOD).unwrap();
    let calls = [limiter.limit("open", "alice"), limiter.limit("open", "alice").with_quota(&two)];
    assert!(run(limiter.limit_all(calls)).unwrap_err().is_misuse());
}
