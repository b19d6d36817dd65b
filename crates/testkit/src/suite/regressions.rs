//! Regression cases for bugs of other limiters.

use tidegate_core::{MAX_PERIOD, Quota, TestableStore, days, seconds};

use super::caller::{BASE, Caller, SECOND, quotas, standard_quotas};
use super::concurrency::OwnedCaller;
use crate::{Applicability, Subject};

/// A burst of one still limits: one at a time, and one for each unit refilled.
pub async fn burst_of_one_limits<S: TestableStore + 'static>(subject: &Subject<S>) -> Applicability {
    for quota in quotas(1, seconds(1)) {
        let caller = Caller::new(subject, "burst_of_one_limits", quota);
        caller.expect_allowed(1, BASE).await;
        for n in 0..20 {
            caller.expect_denied(1, BASE + n * 1_000).await;
        }
    }
    let bucket = Quota::token_bucket(10, seconds(1)).and_then(|quota| quota.capacity(1)).expect("a valid quota");
    let caller = Caller::new(subject, "burst_of_one_limits_at_a_rate", bucket);
    let mut taken = 0;
    // Every 10 ms for a second and a half, after an idle half second.
    for at in (50..200).map(|n| BASE + n * 10_000) {
        taken += u64::from(caller.limit(1, at).await.allowed);
    }
    assert_eq!(taken, 15, "{caller}: one at once, and one for each of the 14 tenths of a second after it");
    Applicability::Ran
}

/// A key gets its capacity at once and no more, after any idle time.
pub async fn idle_key_gets_no_more_than_its_burst<S: TestableStore + 'static>(subject: &Subject<S>) -> Applicability {
    let year = days(365).as_micros() as u64;
    for quota in standard_quotas() {
        let caller = Caller::new(subject, "idle_key_gets_no_more_than_its_burst", quota);
        caller.expect_allowed(5, BASE).await;
        for at in [BASE + year + 1, BASE + 2 * year + 3 * SECOND] {
            caller.expect_denied(11, at).await;
            caller.expect_remaining(10, at, "after a year of idling").await;
            caller.expect_allowed(10, at).await;
            caller.expect_denied(1, at).await;
        }
    }
    Applicability::Ran
}

/// Callers that check before they limit get no more in total than callers that do not.
pub async fn check_then_add_does_not_over_admit<S: TestableStore + 'static>(subject: &Subject<S>) -> Applicability {
    for quota in quotas(20, MAX_PERIOD) {
        let caller = Caller::new(subject, "check_then_add_does_not_over_admit", quota);
        let admitted = subject.run_concurrently(100, |_, store| {
            let owned = OwnedCaller::new(&caller);
            async move { owned.check(&*store, 1).await && owned.limit(&*store, 1).await }
        });
        let admitted = admitted.into_iter().filter(|admitted| *admitted).count();
        assert_eq!(admitted, 20, "{caller}: admitted to 100 callers that check first");
    }
    Applicability::Ran
}
