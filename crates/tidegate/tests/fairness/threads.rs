//! Fair limits under many threads.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::task::{Context, Waker};
use std::thread;

use tidegate::concurrency::Permit;
use tidegate::{days, seconds};
use tidegate_testkit::{Random, block_on};

use crate::crowd::{clock, fair};

/// The test's own count of work in flight, which must never exceed the limit.
struct Work<'a> {
    count: &'a AtomicU32,
    limit: u32,
}

impl Work<'_> {
    fn run(&self, permit: Permit) {
        assert!(self.count.fetch_add(1, Ordering::SeqCst) < self.limit, "more than the limit at once");
        thread::yield_now();
        self.count.fetch_sub(1, Ordering::SeqCst);
        drop(permit);
    }
}

#[test]
fn competing_threads_lose_no_slot_and_no_wake_up() {
    let (limit, clock) = (3, clock());
    let fair = fair(limit, &clock).weight("t0", 3).max_tenants(2).build();
    let (count, ended) = (AtomicU32::new(0), AtomicBool::new(false));
    let work = Work { count: &count, limit };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..8_u64)
            .map(|number| {
                let (fair, work) = (&fair, &work);
                scope.spawn(move || {
                    let mut random = Random::new(number);
                    let tenant = format!("t{}", number % 4);
                    for _ in 0..3_000 {
                        match random.below(4) {
                            0 => fair.try_acquire(tenant.as_str()).map_or((), |permit| work.run(permit)),
                            1 => {
                                // Acquires, and leaves if it has to wait, perhaps at the moment of its turn.
                                let mut acquire = pin!(fair.acquire(tenant.as_str(), days(1)));
                                let _ = acquire.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                                thread::yield_now();
                            }
                            // A lost wake-up would block this thread forever.
                            _ => work.run(block_on(fair.acquire(tenant.as_str(), days(100_000))).unwrap()),
                        }
                    }
                })
            })
            .collect();
        // Tenants come and go meanwhile.
        scope.spawn(|| {
            while !ended.load(Ordering::SeqCst) {
                clock.advance(seconds(3));
                thread::yield_now();
            }
        });
        let outcomes: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        ended.store(true, Ordering::SeqCst);
        outcomes.into_iter().for_each(|outcome| outcome.unwrap());
    });
    assert_eq!((fair.in_flight(), fair.waiting()), (0, 0));
}
