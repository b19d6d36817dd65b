//! What went wrong in other limiters, so that it does not here.

use tidegate_core::{MAX_PERIOD, Quota, Testing, days, seconds};

use super::caller::{BASE, Caller, SECOND, quotas, tens};
use super::concurrency::Owned;
use crate::{Applicability, Subject};

/// A burst of one still limits: one at a time, and one for each that comes.
pub async fn burst_of_one_limits<S: Testing + 'static>(subject: &Subject<S>) -> Applicability {
    for quota in quotas(1, seconds(1)) {
        let caller = Caller::new(subject, "burst_of_one_limits", quota);
        caller.take(1, BASE).await;
        for n in 0..20 {
            caller.denied(1, BASE + n * 1_000).await;
        }
    }
    let bucket = Quota::token_bucket(10, seconds(1)).and_then(|quota| quota.capacity(1)).expect("a valid quota");
    let caller = Caller::new(subject, "burst_of_one_limits_at_a_rate", bucket);
    let mut taken = 0;
    // Every 10 ms for a second and a half, of which the first half is idle.
    for at in (50..200).map(|n| BASE + n * 10_000) {
        taken += u64::from(caller.limit(1, at).await.allowed);
    }
    assert_eq!(taken, 15, "{caller}: one at once, and one for each of the 14 tenths of a second after it");
    Applicability::Ran
}

/// However long a key was idle, it gets its capacity at once and no more.
pub async fn no_more_than_the_burst_after_idle<S: Testing + 'static>(subject: &Subject<S>) -> Applicability {
    let year = days(365).as_micros() as u64;
    for quota in tens() {
        let caller = Caller::new(subject, "no_more_than_the_burst_after_idle", quota);
        caller.take(5, BASE).await;
        for at in [BASE + year + 1, BASE + 2 * year + 3 * SECOND] {
            caller.denied(11, at).await;
            caller.has(10, at, "after a year of idling").await;
            caller.take(10, at).await;
            caller.denied(1, at).await;
        }
    }
    Applicability::Ran
}

/// Callers who look before they take get no more between them than callers who do not.
pub async fn check_then_add_does_not_over_admit<S: Testing + 'static>(subject: &Subject<S>) -> Applicability {
    for quota in quotas(20, MAX_PERIOD) {
        let caller = Caller::new(subject, "check_then_add_does_not_over_admit", quota);
        let admitted = subject.concurrently(100, |_, store| {
            let asked = Owned::new(&caller);
            async move { asked.check(&*store, 1).await && asked.limit(&*store, 1).await }
        });
        let admitted = admitted.into_iter().filter(|admitted| *admitted).count();
        assert_eq!(admitted, 20, "{caller}: admitted to 100 callers who look first");
    }
    Applicability::Ran
}
