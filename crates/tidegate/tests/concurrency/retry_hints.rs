//! Retry hints of rejections.

use std::time::Duration;

use tidegate::concurrency::{Completion, Concurrency, PerKey, RejectReason};
use tidegate::{ManualClock, Reason, millis, seconds};

#[test]
fn retry_hint_is_the_recent_duration_of_work() {
    let clock = ManualClock::default();
    let pool = Concurrency::fixed(1).clock(clock.clone());
    let hint = || {
        let _held = pool.try_acquire().unwrap();
        pool.try_acquire().unwrap_err().retry_after()
    };
    let work = |took: Duration, ends: Completion| {
        let permit = pool.try_acquire().unwrap();
        clock.advance(took);
        permit.release(ends);
    };
    assert_eq!(hint(), seconds(1), "nothing is known yet");
    work(millis(80), Completion::Success);
    assert_eq!(hint(), millis(80));
    work(seconds(3_600), Completion::Ignored);
    assert_eq!(hint(), millis(80), "ignored work does not change the hint");
    (0..100).for_each(|_| work(millis(400), Completion::Success));
    assert!(hint().abs_diff(millis(400)) < millis(1), "{:?}", hint());
    (0..200).for_each(|_| work(Duration::ZERO, Completion::Success));
    assert_eq!(hint(), millis(1), "never nothing: that would be an invitation to spin");
}

#[test]
fn rejection_converts_to_a_decision() {
    let keys = PerKey::new(1);
    let _held = keys.try_acquire("a").unwrap();
    let refused = keys.try_acquire("a").unwrap_err();
    assert_eq!(refused.reason(), RejectReason::Busy);
    let decision = refused.decision();
    assert!(!decision.allowed());
    assert_eq!((decision.limit(), decision.remaining()), (1, 0));
    assert_eq!((decision.reason(), decision.retry_after()), (Some(Reason::Concurrency), Some(seconds(1))));
    assert_eq!(refused.to_string(), "1 are in flight, which is the limit; try again in about 1s");
}
