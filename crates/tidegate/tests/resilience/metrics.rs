//! The metrics of the wrappers, by name.

use std::pin::pin;

use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use tidegate::resilience::{BreakerStore, InstrumentedStore, Resilience};
use tidegate::{MemoryStore, OnStoreError, Store, StoreErrorKind, millis, seconds};
use tidegate_testkit::block_on;

use crate::recorded::{Recorded, counters, recorded};
use crate::support::{TestRequest, clock, error, faulty, poll};

#[test]
fn fallbacks_are_counted_by_limit_and_policy() {
    let recorded = recorded(|| {
        let clock = clock();
        let (store, faults) = faulty(&clock);
        let store = Resilience::new(clock).build(store);
        let _ = TestRequest::new(5).take(&store);
        faults.fail(error(StoreErrorKind::Unavailable));
        for policy in OnStoreError::ALL {
            let _ = block_on(store.apply(&TestRequest::new(5).policy(policy).limit()));
        }
        let both = [TestRequest::new(5), TestRequest::new(5).policy(OnStoreError::Local)];
        let _ = block_on(store.apply_all(&both.each_ref().map(TestRequest::limit))).unwrap();
    });
    assert_eq!(
        counters(&recorded, "tidegate_fallback_total"),
        [("{limit=login,policy=closed}", 1), ("{limit=login,policy=local}", 3), ("{limit=login,policy=open}", 1)]
    );
}

#[test]
fn store_calls_are_timed_and_errors_counted_by_kind() {
    let recorded = recorded(|| {
        let clock = clock();
        let (store, faults) = faulty(&clock);
        let store = InstrumentedStore::new(store, "faulty").clock(clock.clone());
        let target = TestRequest::new(5);
        let requests = [target.limit(), target.limit()];
        store.try_apply(&requests[0]);
        let _ = block_on(store.apply_all(&requests)).unwrap();
        faults.fail(error(StoreErrorKind::Corrupt));
        block_on(store.apply_each(&requests));
        faults.fail(error(StoreErrorKind::Unavailable));
        store.try_apply(&requests[0]);
        faults.hang();
        assert!(store.try_apply(&requests[0]).is_none());
        let mut call = pin!(store.apply(&requests[0]));
        assert!(poll(call.as_mut()).is_pending());
        clock.advance(millis(7));
        faults.release();
        assert!(poll(call.as_mut()).is_ready());
        // One that is dropped has not ended.
        assert!(poll(pin!(store.apply(&requests[0]))).is_pending());
    });
    let seconds: Vec<_> = recorded
        .iter()
        .filter_map(|(key, value)| Some((key.strip_prefix("tidegate_store_seconds")?, value)))
        .map(|(key, value)| match value {
            DebugValue::Histogram(values) => (key, values.iter().map(|value| value.0).collect::<Vec<_>>()),
            other => panic!("{key} is {other:?}"),
        })
        .collect();
    assert_eq!(
        seconds,
        [
            ("{call=apply,store=faulty}", vec![0.007]),
            ("{call=apply_all,store=faulty}", vec![0.0]),
            ("{call=apply_each,store=faulty}", vec![0.0]),
            ("{call=try_apply,store=faulty}", vec![0.0, 0.0]),
        ]
    );
    assert_eq!(
        counters(&recorded, "tidegate_store_errors_total"),
        [("{kind=corrupt,store=faulty}", 2), ("{kind=unavailable,store=faulty}", 1)]
    );
}

#[test]
fn timeout_counts_as_store_error_and_open_breaker_does_not() {
    let recorded = recorded(|| {
        let clock = clock();
        let (store, faults) = faulty(&clock);
        let store = Resilience::new(clock.clone()).name("faulty").breaker(1, seconds(1)).build(store);
        faults.hang();
        let target = TestRequest::new(5);
        let request = target.limit();
        let mut call = pin!(store.apply(&request));
        assert!(poll(call.as_mut()).is_pending());
        clock.advance(millis(50));
        assert!(poll(call.as_mut()).is_ready());
        target.admitted(&store);
    });
    assert_eq!(counters(&recorded, "tidegate_store_errors_total"), [("{kind=timeout,store=faulty}", 1)]);
    assert_eq!(counters(&recorded, "tidegate_fallback_total"), [("{limit=login,policy=open}", 101)]);
}

#[test]
fn breaker_state_and_openings_are_recorded() {
    // After so many of these steps: it fails and opens, it tries and waits, it fails and opens, it tries and closes.
    for (steps, state, opened) in [(0, 0.0, 0), (1, 2.0, 1), (2, 1.0, 1), (3, 2.0, 2), (4, 0.0, 2)] {
        let recorded = recorded(|| {
            let clock = clock();
            let (store, faults) = faulty(&clock);
            let store = BreakerStore::new(store, "faulty").failures(1).clock(clock.clone());
            let target = TestRequest::new(5);
            let request = target.limit();
            let mut trying = Box::pin(store.apply(&request));
            for step in 1..=steps {
                match step {
                    1 => faults.fail(error(StoreErrorKind::Unavailable)),
                    2 => faults.hang(),
                    3 => {
                        drop(std::mem::replace(&mut trying, Box::pin(store.apply(&request))));
                        faults.fail(error(StoreErrorKind::Unavailable));
                    }
                    _ => faults.pass(),
                }
                let _ = poll(trying.as_mut());
                if step != 2 {
                    trying = Box::pin(store.apply(&request));
                    clock.advance(seconds(1));
                }
            }
            // Not dropped before it was looked at, or it would not be trying any more.
            std::mem::forget(trying);
        });
        assert!(
            matches!(recorded["tidegate_breaker_state{store=faulty}"], DebugValue::Gauge(value) if value.0 == state)
        );
        let expected = if opened == 0 { vec![] } else { vec![("{store=faulty}", opened)] };
        assert_eq!(counters(&recorded, "tidegate_breaker_opened_total"), expected, "after {steps} steps");
    }
}

#[test]
fn no_label_holds_a_key() {
    let recorded = recorded(|| {
        let clock = clock();
        let (store, faults) = faulty(&clock);
        let store = Resilience::new(clock).build(store);
        for policy in OnStoreError::ALL {
            let target = TestRequest::new(1).key("alice@example.org").policy(policy);
            faults.pass();
            let _ = block_on(store.apply(&target.limit())).unwrap();
            faults.fail(error(StoreErrorKind::Unavailable));
            let _ = block_on(store.apply(&target.limit()));
        }
    });
    assert!(recorded.len() > 3);
    assert!(recorded.keys().all(|key| !key.contains("alice")), "{recorded:?}");
}

#[test]
fn every_metric_has_a_description() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    metrics::with_local_recorder(&recorder, || {
        let (store, faults) = faulty(&clock());
        let store = Resilience::new(clock()).breaker(1, seconds(1)).build(store);
        faults.fail(error(StoreErrorKind::Unavailable));
        let _ = TestRequest::new(5).take(&store);
    });
    let metrics = snapshotter.snapshot().into_vec();
    assert!(metrics.len() > 5);
    for (key, _, description, _) in metrics {
        assert!(description.is_some(), "{} has no description", key.key().name());
    }
}

fn breaker_state(recorded: &Recorded) -> f64 {
    match recorded["tidegate_breaker_state{store=faulty}"] {
        DebugValue::Gauge(value) => value.0,
        ref other => panic!("{other:?}"),
    }
}

#[test]
fn recorder_that_is_installed_after_the_store_was_built_gets_its_state() {
    let clock = clock();
    let (store, faults) = faulty(&clock);
    let store = Resilience::new(clock.clone()).name("faulty").breaker(1, seconds(1)).build(store);
    let target = TestRequest::new(5);
    let take = || assert!(target.take(&store).allowed());
    assert_eq!(breaker_state(&recorded(take)), 0.0, "closed from the start");
    faults.fail(error(StoreErrorKind::Unavailable));
    take();
    assert_eq!(breaker_state(&recorded(take)), 2.0, "opened before");
    clock.advance(seconds(1));
    faults.pass();
    let recorded = recorded(take);
    assert_eq!(breaker_state(&recorded), 0.0);
    assert!(recorded.contains_key("tidegate_store_seconds{call=apply,store=faulty}"), "{recorded:?}");
}

fn evicted(recorded: &Recorded) -> Vec<(&str, u64)> {
    counters(recorded, "tidegate_memory_forgotten_busy_total")
}

#[test]
fn evicted_busy_keys_are_counted_by_any_recorder() {
    let flood = |store: &MemoryStore, keys: u64| {
        for key in 0..keys {
            let _ = TestRequest::new(5).key(key).take(store);
        }
    };
    let small_store = || MemoryStore::builder().max_keys(64).clock(clock()).build();
    assert_eq!(evicted(&recorded(|| drop(small_store()))), [("{}", 0)]);
    let mut forgotten = 0;
    let while_built = recorded(|| {
        let store = small_store();
        flood(&store, 1_000);
        forgotten = store.stats().forgotten_busy;
    });
    assert!(forgotten > 0);
    assert_eq!(evicted(&while_built), [("{}", forgotten)]);
    let store = small_store();
    flood(&store, 1_000);
    let before = store.stats().forgotten_busy;
    let later = recorded(|| flood(&store, 2_000));
    assert_eq!(evicted(&later), [("{}", store.stats().forgotten_busy - before)]);
}
