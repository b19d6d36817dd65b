//! Cases about precision: extreme numbers, and rates that do not divide their period.

use tidegate_core::{DecisionParts, MAX_COUNT, MAX_PERIOD, MIN_PERIOD, Op, Quota, TestableStore, minutes, seconds};

use super::caller::{BASE, Caller, cost, quotas, time_after};
use crate::{Applicability, Random, Subject};

/// Expects every span of a decision about a used key to be honest. The key does not have the `units`.
async fn expect_honest_spans<S: TestableStore + 'static>(caller: &Caller<'_, S>, units: u64, now: u64) {
    let used = caller.check(1, now).await;
    let next = time_after(now, used.next_after);
    caller.expect_remaining(used.remaining.into(), next - 1, "a microsecond before next_after").await;
    let grown = caller.check(1, next).await;
    assert!(grown.remaining > used.remaining, "{caller}: remaining at {next}: {grown:?}");

    let reset = time_after(now, Some(used.reset_after));
    let early = caller.check(1, reset - 1).await;
    assert_eq!(early.reset_after, 1, "{caller}: a microsecond before {reset}: {early:?}");

    let denied = caller.expect_denied(units, now).await;
    let retried = caller.expect_retry(Op::Limit(cost(units)), denied, now).await;
    let reset = time_after(retried, Some(caller.check(1, retried).await.reset_after));
    let new = caller.check(1, reset).await;
    assert_eq!((new.remaining, new.reset_after), (new.limit, 0), "{caller}: as good as new at {reset}: {new:?}");
}

/// The largest rate, capacity and period are exact.
pub async fn very_large_numbers_are_exact<S: TestableStore + 'static>(subject: &Subject<S>) -> Applicability {
    for quota in quotas(MAX_COUNT, MAX_PERIOD) {
        let caller = Caller::new(subject, "very_large_numbers_are_exact", quota);
        assert_eq!(
            u64::from(caller.expect_allowed(MAX_COUNT - 1, BASE).await.remaining),
            1,
            "{caller}: all but one taken"
        );
        expect_honest_spans(&caller, MAX_COUNT - 5, BASE + 1).await;
        let caller = caller.with_key("all");
        caller.expect_allowed(MAX_COUNT, BASE).await;
        expect_honest_spans(&caller, 1, BASE).await;
        let caller = caller.with_key("debt");
        for _ in 0..2 {
            let decision = caller.reserve(MAX_COUNT, BASE).await;
            assert!(decision.allowed, "{caller}: the largest debt: {decision:?}");
        }
        let refused = caller.reserve(1, BASE).await;
        assert!(!refused.allowed, "{caller}: a debt above the largest: {refused:?}");
    }
    // Spans up to the longest of a decision are exact, and longer ones are reported as that.
    for capacity in [500_000, MAX_COUNT] {
        let slow = Quota::token_bucket(1, MAX_PERIOD).and_then(|quota| quota.capacity(capacity));
        let caller = Caller::new(subject, "very_large_spans", slow.expect("a valid quota")).with_key(capacity);
        let period = MAX_PERIOD.as_micros() as u64;
        let until = |elapsed| match capacity.checked_mul(period) {
            Some(whole) => whole - elapsed,
            None => DecisionParts::MAX_SPAN,
        };
        let decision = caller.expect_allowed(capacity, BASE).await;
        assert_eq!(decision.reset_after, until(0), "{caller}: until the whole capacity is back");
        let decision = caller.expect_denied(capacity, BASE + 7).await;
        assert_eq!(decision.retry_after, Some(until(7)), "{caller}: until the whole capacity is back, a little later");
        let decision = caller.expect_denied(1, BASE + 7).await;
        assert_eq!(decision.retry_after, Some(period - 7), "{caller}: until the first comes");
    }
    Applicability::Ran
}

/// A rate of 1 is exact in the shortest and in the longest period.
pub async fn very_small_numbers_are_exact<S: TestableStore + 'static>(subject: &Subject<S>) -> Applicability {
    for period in [MIN_PERIOD, MAX_PERIOD] {
        for quota in quotas(1, period) {
            let caller = Caller::new(subject, "very_small_numbers_are_exact", quota).with_key(format!("{period:?}"));
            for now in [BASE, BASE + 2 * period.as_micros() as u64 + 123] {
                assert_eq!(caller.expect_allowed(1, now).await.remaining, 0, "{caller}: the only one taken");
                expect_honest_spans(&caller, 1, now).await;
                caller.apply(Op::Reset, now).await;
            }
        }
    }
    // A large rate in the shortest period: several units are refilled in each microsecond.
    let fast = Quota::token_bucket(MAX_COUNT, MIN_PERIOD).expect("a valid quota");
    let caller = Caller::new(subject, "very_fast", fast);
    caller.expect_allowed(MAX_COUNT, BASE).await;
    caller.expect_remaining(MAX_COUNT / 1_000, BASE + 1, "what one microsecond brings, rounded down").await;
    caller.expect_remaining(MAX_COUNT - 4_294_968, BASE + 999, "what 999 microseconds bring, rounded down").await;
    caller.expect_remaining(MAX_COUNT, BASE + 1_000, "after the period").await;
    Applicability::Ran
}

/// Rates that do not divide their period are exact over long times, at uneven intervals between the calls.
pub async fn fractional_rates_are_exact<S: TestableStore + 'static>(subject: &Subject<S>) -> Applicability {
    for (rate, period) in [(3, seconds(1)), (7, minutes(1))] {
        let micros = period.as_micros() as u64;
        for quota in quotas(rate, period) {
            let caller = Caller::new(subject, "fractional_rates_are_exact", quota).with_key(format!("honest {rate}"));
            caller.expect_allowed(rate, BASE + 5).await;
            expect_honest_spans(&caller, 2, BASE + 5).await;
        }
        let bucket = Quota::token_bucket(rate, period).expect("a valid quota");
        let caller = Caller::new(subject, "fractional_rates_are_exact", bucket).with_key(format!("long {rate}"));
        caller.expect_allowed(rate, BASE).await;
        let (mut random, mut now, mut taken) = (Random::new(rate), BASE, 0);
        for _ in 0..100 {
            // Never so late that the bucket is full. So the refilled units are those taken and those left.
            now += random.between(1, micros * 6 / 10);
            let left = u64::from(caller.check(1, now).await.remaining);
            let came = (now - BASE) * rate / micros;
            assert_eq!(taken + left, came, "{caller}: taken and left at {now}, of what came since {BASE}");
            if left > 0 {
                caller.expect_allowed(left, now).await;
                taken += left;
            }
        }
    }
    Applicability::Ran
}
