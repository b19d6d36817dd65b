//! Permits: each is released exactly once, at every kind of end of the work.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread;

use tidegate::concurrency::{Completion, Concurrency, Controller, PerKey, Permit, Rejected, Sample};
use tidegate_testkit::Random;

/// The end of a piece of work.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Ending {
    Success,
    Failure,
    Return,
    Panic,
    /// Does not end before it is cancelled.
    Cancellation,
}

const ENDINGS: [Ending; 5] = [Ending::Success, Ending::Failure, Ending::Return, Ending::Panic, Ending::Cancellation];

/// Work that holds a permit for a number of polls.
async fn work(permit: Permit, polls: u64, ending: Ending) {
    for _ in 0..polls {
        yield_once().await;
    }
    match ending {
        Ending::Success => permit.release(Completion::Success),
        Ending::Failure => permit.release(Completion::Dropped),
        Ending::Return => {}
        Ending::Panic => std::panic::resume_unwind(Box::new("as it was told")),
        Ending::Cancellation => std::future::pending().await,
    }
}

fn yield_once() -> impl Future<Output = ()> {
    let mut yielded = false;
    std::future::poll_fn(move |_| if std::mem::replace(&mut yielded, true) { Poll::Ready(()) } else { Poll::Pending })
}

type RunningWork = (Pin<Box<dyn Future<Output = ()>>>, Ending);

/// A source of permits.
trait PermitSource {
    fn acquire(&self, random: &mut Random) -> Result<Permit, Rejected>;
    fn in_flight(&self) -> u32;
    fn capacity(&self) -> u32;
}

const LIMIT: u32 = 7;

impl PermitSource for Concurrency {
    fn acquire(&self, _: &mut Random) -> Result<Permit, Rejected> {
        self.clone().try_acquire()
    }

    fn in_flight(&self) -> u32 {
        Concurrency::in_flight(self)
    }

    fn capacity(&self) -> u32 {
        LIMIT
    }
}

const KEYS: [&str; 3] = ["a", "b", "c"];

impl PermitSource for PerKey {
    fn acquire(&self, random: &mut Random) -> Result<Permit, Rejected> {
        self.try_acquire(random.pick(&KEYS))
    }

    fn in_flight(&self) -> u32 {
        KEYS.iter().map(|key| PerKey::in_flight(self, *key)).sum()
    }

    fn capacity(&self) -> u32 {
        LIMIT * KEYS.len() as u32
    }
}

/// Starts, polls and cancels work at random, and compares with what should be in flight after each step.
fn run_in_random_order(seed: u64, source: &impl PermitSource) -> u64 {
    let mut random = Random::new(seed);
    let mut running: Vec<RunningWork> = Vec::new();
    let mut context = Context::from_waker(Waker::noop());
    let mut told = 0;
    for _ in 0..200 {
        match random.below(10) {
            0..4 => match source.acquire(&mut random) {
                Ok(permit) => {
                    let (polls, ending) = (random.below(4), random.pick(&ENDINGS));
                    running.push((Box::pin(work(permit, polls, ending)), ending));
                }
                Err(refused) => assert!(running.len() as u32 >= LIMIT, "{refused} at {}", running.len()),
            },
            4..9 if !running.is_empty() => {
                let index = random.below(running.len() as u64) as usize;
                let (work, ending) = &mut running[index];
                let ended = match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(&mut context))) {
                    Ok(poll) => poll.is_ready(),
                    Err(_) => true,
                };
                if ended {
                    told += u64::from(matches!(ending, Ending::Success | Ending::Failure));
                    drop(running.swap_remove(index));
                }
            }
            _ if !running.is_empty() => {
                let index = random.below(running.len() as u64) as usize;
                drop(running.swap_remove(index));
            }
            _ => {}
        }
        assert_eq!(source.in_flight(), running.len() as u32, "seed {seed}");
        assert!(running.len() as u32 <= source.capacity());
    }
    drop(running);
    assert_eq!(source.in_flight(), 0, "seed {seed}");
    told
}

/// A controller that counts samples and never changes its limit.
struct CountingController(Arc<Mutex<u64>>);

impl Controller for CountingController {
    fn limit(&self) -> u32 {
        LIMIT
    }

    fn observe(&mut self, _: &Sample) {
        *self.0.lock().unwrap() += 1;
    }
}

#[test]
fn permit_is_released_once_on_completion_error_drop_cancel_and_panic() {
    for seed in 0..500 {
        let samples = Arc::default();
        let pool = Concurrency::adaptive(CountingController(Arc::clone(&samples)));
        let told = run_in_random_order(seed, &pool);
        assert_eq!(
            *samples.lock().unwrap(),
            told,
            "seed {seed}: a controller learns once, and only from reported outcomes"
        );
        run_in_random_order(seed, &Concurrency::fixed(LIMIT));
        let keys = PerKey::new(LIMIT);
        run_in_random_order(seed, &keys);
        assert_eq!(keys.keys(), 0, "a key without permits takes no memory");
    }
}

#[test]
fn competing_threads_never_exceed_the_limit_and_lose_no_permit() {
    let (pool, keys) = (Concurrency::fixed(3), PerKey::new(2));
    let inside = Mutex::new(0_i32);
    thread::scope(|scope| {
        for seed in 0..4 {
            let (pool, keys, inside) = (pool.clone(), keys.clone(), &inside);
            scope.spawn(move || {
                let mut random = Random::new(seed);
                for _ in 0..20_000 {
                    let held = (pool.try_acquire(), keys.try_acquire(random.pick(&KEYS)));
                    if let (Ok(permit), _) = held {
                        let now = {
                            let mut inside = inside.lock().unwrap();
                            *inside += 1;
                            *inside
                        };
                        assert!(now <= 3, "{now} at once");
                        *inside.lock().unwrap() -= 1;
                        permit.release(random.pick(&Completion::ALL));
                    }
                }
            });
        }
    });
    assert_eq!((pool.in_flight(), keys.keys()), (0, 0));
}

#[test]
fn permit_may_outlive_its_pool_and_end_on_another_thread() {
    let pool = Concurrency::fixed(1);
    let other = pool.clone();
    let permit = pool.try_acquire().unwrap();
    drop(pool);
    assert!(other.try_acquire().is_err());
    thread::spawn(move || permit.release(Completion::Success)).join().unwrap();
    assert!(other.try_acquire().is_ok());
}
