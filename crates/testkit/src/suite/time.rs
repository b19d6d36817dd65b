//! Cases about time: clocks that jump back, callers that poll, and the start of windows.

use tidegate_core::{Op, Quota, TestableStore, seconds};

use super::caller::{BASE, Caller, SECOND, cost, standard_quotas};
use crate::{Applicability, Subject};

/// Time that goes backwards for a key counts as standing still: no unit is forgotten or refilled twice.
pub async fn backwards_clock_stands_still<S: TestableStore + 'static>(subject: &Subject<S>) -> Applicability {
    for quota in standard_quotas() {
        let caller = Caller::new(subject, "backwards_clock_stands_still", quota);
        let (now, back) = (BASE + 12 * SECOND, BASE + 7 * SECOND);
        caller.expect_allowed(4, now).await;
        caller.expect_remaining(6, back, "asked five seconds before the last take").await;
        caller.expect_allowed(3, back).await;
        caller.expect_remaining(3, back, "after a take on the clock that went back").await;
        // If the stored time had moved back, five seconds would refill a second time.
        caller.expect_remaining(3, now, "when the clock has caught up").await;
        caller.refund(1, back).await;
        caller.expect_remaining(4, now, "after a refund on the clock that went back").await;
        let far = caller.check(1, SECOND).await;
        assert_eq!(far.remaining, 4, "{caller}: asked fifty years earlier: {far:?}");
    }
    Applicability::Ran
}

/// On a clock that went back, spans count from the new time of that clock, and are still honest.
pub async fn backwards_clock_is_honest<S: TestableStore + 'static>(subject: &Subject<S>) -> Applicability {
    for quota in standard_quotas() {
        let caller = Caller::new(subject, "backwards_clock_is_honest", quota);
        let (now, back) = (BASE + 12 * SECOND, BASE + 7 * SECOND);
        caller.expect_allowed(10, now).await;
        let (then, decision) = (caller.check(4, now).await, caller.check(4, back).await);
        let later = |span: Option<u64>| span.map(|span| span + (now - back));
        assert_eq!(decision.retry_after, later(then.retry_after), "{caller}: retry_after five seconds earlier");
        assert_eq!(decision.next_after, later(then.next_after), "{caller}: next_after five seconds earlier");
        let reset_after = later(Some(then.reset_after));
        assert_eq!(Some(decision.reset_after), reset_after, "{caller}: reset_after five seconds earlier");
        caller.expect_retry(Op::Limit(cost(4)), decision, back).await;
    }
    Applicability::Ran
}

/// Calls that are far more frequent than the refill lose no fraction of a unit.
pub async fn polling_loses_nothing<S: TestableStore + 'static>(subject: &Subject<S>) -> Applicability {
    for quota in standard_quotas() {
        let caller = Caller::new(subject, "polling_loses_nothing", quota);
        caller.expect_allowed(10, BASE).await;
        let wait = caller.expect_denied(1, BASE).await.retry_after.expect("a denial by rate has a retry time");
        let due = BASE + wait;
        for n in 1..50 {
            let at = BASE + (due - BASE) * n / 50;
            let decision = caller.expect_denied(1, at).await;
            let expected = due - at;
            assert_eq!(decision.retry_after, Some(expected), "{caller}: poll number {n}, at {at}: {decision:?}");
        }
        caller.expect_allowed(1, due).await;
    }
    // An allowed call moves the key's time. The fraction of a unit must move with it.
    let bucket = Quota::token_bucket(10, seconds(10)).expect("a valid quota");
    let caller = Caller::new(subject, "polling_and_taking_loses_nothing", bucket);
    caller.expect_allowed(10, BASE).await;
    let mut taken = 0;
    for at in (1..=70).map(|n| BASE + n * 300_000) {
        taken += u64::from(caller.limit(1, at).await.allowed);
        let due = (at - BASE) / SECOND;
        assert_eq!(taken, due, "{caller}: one comes each second and is asked for at {at}");
    }
    Applicability::Ran
}

/// Windows begin at `start` plus whole periods.
pub async fn windows_begin_at_start<S: TestableStore + 'static>(subject: &Subject<S>) -> Applicability {
    let fixed = Quota::fixed_window(2, seconds(10)).and_then(|quota| quota.start(seconds(3))).expect("a valid quota");
    let caller = Caller::new(subject, "windows_begin_at_start", fixed);
    // Early times too: there is a window before the first start.
    for base in [BASE, 0] {
        let caller = caller.with_key(if base == 0 { "early" } else { "k" });
        let decision = caller.expect_allowed(2, base + SECOND).await;
        assert_eq!(decision.reset_after, 2 * SECOND, "{caller}: from second 1 to the start at 3");
        caller.expect_denied(1, base + 3 * SECOND - 1).await;
        let decision = caller.expect_allowed(1, base + 3 * SECOND).await;
        assert_eq!(decision.reset_after, 10 * SECOND, "{caller}: from one start to the next");
    }

    let sliding = Quota::sliding_window(10, seconds(10)).and_then(|quota| quota.start(seconds(3)));
    let caller = Caller::new(subject, "windows_begin_at_start", sliding.expect("a valid quota"));
    // Both are taken in the bucket that began at -7. At 8, half of it is still inside.
    caller.expect_allowed(4, BASE + SECOND).await;
    caller.expect_allowed(4, BASE + 3 * SECOND - 1).await;
    let decision = caller.expect_remaining(6, BASE + 8 * SECOND, "half of the previous bucket has gone").await;
    assert_eq!(decision.reset_after, 5 * SECOND, "{caller}: until the previous bucket is gone");
    Applicability::Ran
}

/// Unused units of a fixed window roll over into the next when the capacity is above the rate. Debt is repaid by one
/// grant a window.
pub async fn unused_grants_roll_over<S: TestableStore + 'static>(subject: &Subject<S>) -> Applicability {
    let quota = Quota::fixed_window(5, seconds(10)).and_then(|quota| quota.capacity(12)).expect("a valid quota");
    let caller = Caller::new(subject, "unused_grants_roll_over", quota);
    let window = |n: u64| BASE + n * 10 * SECOND;
    caller.expect_allowed(12, BASE).await;
    for (n, remaining) in [(0, 0), (1, 5), (2, 10), (3, 12)] {
        caller.expect_remaining(remaining, window(n), "grants add up to the capacity").await;
    }
    caller.expect_allowed(1, window(1)).await;
    caller.expect_remaining(9, window(2), "4 left over and 5 granted").await;

    let caller = caller.with_key("debt");
    caller.expect_allowed(12, BASE).await;
    let debt = caller.reserve(12, BASE).await;
    assert_eq!(debt.retry_after, Some(30 * SECOND), "{caller}: 12 owed, 5 repaid a window: {debt:?}");
    caller.expect_remaining(0, window(3) - 1, "still in debt").await;
    caller.expect_remaining(3, window(3), "15 repaid of 12 owed").await;
    Applicability::Ran
}
