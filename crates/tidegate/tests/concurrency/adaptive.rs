//! Adaptive limits, in pools and in gates.

use std::collections::VecDeque;

use tidegate::concurrency::{Aimd, Completion, Concurrency, Controller, Gradient2, Permit, Vegas};
use tidegate::{ManualClock, Timestamp, millis};

/// Returns a pool of every controller with its defaults, which all begin at 20.
fn pools(clock: &ManualClock) -> impl Iterator<Item = (&'static str, Concurrency)> {
    let controllers: [(_, Box<dyn Controller>); 3] = [
        ("Gradient2", Box::new(Gradient2::default())),
        ("Vegas", Box::new(Vegas::default())),
        ("Aimd", Box::new(Aimd::default())),
    ];
    controllers.map(|(name, controller)| (name, Concurrency::adaptive(controller).clock(clock.clone()))).into_iter()
}

fn clock() -> ManualClock {
    ManualClock::new(Timestamp::from_millis(1_800_000_000_000))
}

#[test]
fn reserve_does_not_keep_an_adaptive_limit_from_recovering() {
    for reserve in [0, 10, 30, 50, 60] {
        let clock = clock();
        for (name, pool) in pools(&clock) {
            let pool = pool.reserve(reserve);
            // An outage, in which everything is lost.
            for _ in 0..1_000 {
                let lost = pool.try_acquire().unwrap();
                clock.advance(millis(1_000));
                lost.release(Completion::Dropped);
            }
            assert!(pool.limit() < 5, "{name}, {reserve} %: {}", pool.limit());
            // Then all work takes ten milliseconds, and there is as much as the limit allows.
            let mut permits: VecDeque<Permit> = VecDeque::new();
            for _ in 0..20_000 {
                permits.extend(std::iter::from_fn(|| pool.try_acquire().ok()));
                clock.advance(millis(10) / permits.len() as u32);
                permits.pop_front().unwrap().release(Completion::Success);
            }
            assert!(pool.limit() >= 16, "{name}, {reserve} %: {}", pool.limit());
        }
    }
}

/// On a healthy server, every tenth client disconnects when half of its work is done.
#[cfg(feature = "http")]
#[test]
fn early_client_departures_do_not_lower_the_limit() {
    use http::{HeaderMap, Request, StatusCode};
    use tidegate::enforce::Enforcer;
    use tidegate::http::{AdmittedRequest, Gate, RequestHead};
    use tidegate_testkit::block_on;

    let clock = clock();
    for (name, pool) in pools(&clock) {
        let gate = Gate::new(Enforcer::unlimited()).guards(pool.clone());
        let request = Request::new(());
        let mut passages: VecDeque<AdmittedRequest> = VecDeque::new();
        for step in 0..100_000 {
            while passages.len() < 20
                && let Ok(admitted) = block_on(gate.admit(&RequestHead::from_request(&request)))
            {
                passages.push_back(admitted);
            }
            clock.advance(millis(10) / passages.len() as u32);
            if step % 10 == 0 {
                drop(passages.remove(passages.len() / 2));
            }
            if let Some(admitted) = passages.pop_front() {
                let ended = block_on(admitted.finish(StatusCode::OK, &mut HeaderMap::new(), Some(0)));
                assert!(ended.is_over());
            }
        }
        assert!(pool.limit() >= 16, "{name}: {}", pool.limit());

        // But a client that has waited for longer than work takes has not changed its mind. This happens when all work
        // has become too slow for clients that wait for half as long again as usual.
        drop(passages);
        let before = pool.limit();
        for _ in 0..200 {
            let admitted = block_on(gate.admit(&RequestHead::from_request(&request))).ok();
            clock.advance(millis(15));
            drop(admitted);
        }
        assert!(pool.limit() < before, "{name}: {}", pool.limit());
    }
}
