//! When it may be worth another try.

use std::time::Duration;

use tidegate::concurrency::{Concurrency, PerKey, Why, Work};
use tidegate::{ManualClock, Reason, millis, seconds};

#[test]
fn the_hint_is_how_long_work_took_of_late() {
    let clock = ManualClock::default();
    let pool = Concurrency::fixed(1).clock(clock.clone());
    let hint = || {
        let _held = pool.try_acquire().unwrap();
        pool.try_acquire().unwrap_err().retry_after()
    };
    let work = |took: Duration, ends: Work| {
        let permit = pool.try_acquire().unwrap();
        clock.advance(took);
        permit.release(ends);
    };
    assert_eq!(hint(), seconds(1), "nothing is known yet");
    work(millis(80), Work::Done);
    assert_eq!(hint(), millis(80));
    work(seconds(3_600), Work::Ignore);
    assert_eq!(hint(), millis(80), "what is ignored teaches nothing");
    (0..100).for_each(|_| work(millis(400), Work::Done));
    assert!(hint().abs_diff(millis(400)) < millis(1), "{:?}", hint());
    (0..200).for_each(|_| work(Duration::ZERO, Work::Done));
    assert_eq!(hint(), millis(1), "never nothing: that would be an invitation to spin");
}

#[test]
fn a_refusal_is_a_decision_as_well() {
    let keys = PerKey::new(1);
    let _held = keys.try_acquire("a").unwrap();
    let refused = keys.try_acquire("a").unwrap_err();
    assert_eq!(refused.why(), Why::Busy);
    let decision = refused.decision();
    assert!(!decision.allowed());
    assert_eq!((decision.limit(), decision.remaining()), (1, 0));
    assert_eq!((decision.reason(), decision.retry_after()), (Some(Reason::Concurrency), Some(seconds(1))));
    assert_eq!(refused.to_string(), "1 are in flight, and no more may be; try again in about 1s");
}
