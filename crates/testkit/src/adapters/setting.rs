//! What the cases set up: limits whose time stands still, and permits that are watched.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use tidegate::concurrency::{Concurrency, Controller, Sample};
use tidegate::{Limiter, LimiterBuilder, ManualClock, MemoryStore, Quota, Timestamp, minutes};

/// `rate` in every minute.
pub(super) fn window(rate: u64) -> Quota {
    Quota::fixed_window(rate, minutes(1)).expect("a quota")
}

/// A store whose time stands still at the beginning of a minute.
pub(super) fn memory() -> MemoryStore {
    let clock = ManualClock::new(Timestamp::from_millis(1_800_000_000_000));
    MemoryStore::builder().max_keys(256).clock(clock).build()
}

/// A builder over such a store.
pub(super) fn builder() -> LimiterBuilder {
    Limiter::builder().store(memory())
}

/// A limiter with the one limit `api`, of so many a minute.
pub(super) fn limiter(rate: u64) -> Limiter {
    builder().limit("api", window(rate)).build().expect("a limiter")
}

/// A pool of permits that says how each piece of work ended.
pub(super) struct Watched {
    pub(super) pool: Concurrency,
    ended: Receiver<bool>,
}

pub(super) const DONE: bool = false;
pub(super) const DROPPED: bool = true;

struct Recorder(u32, Sender<bool>);

impl Controller for Recorder {
    fn limit(&self) -> u32 {
        self.0
    }

    fn observe(&mut self, sample: &Sample) {
        // Nobody is there when the case is over.
        let _ = self.1.send(sample.dropped);
    }
}

impl Watched {
    pub(super) fn new(limit: u32) -> Self {
        let (told, ended) = mpsc::channel();
        Watched { pool: Concurrency::adaptive(Recorder(limit, told)), ended }
    }

    /// How the next piece of work has ended, waited for. `meanwhile` is done again and again.
    pub(super) fn next_end(&self, meanwhile: impl Fn()) -> bool {
        for _ in 0..3_000 {
            meanwhile();
            match self.ended.recv_timeout(Duration::from_millis(10)) {
                Ok(dropped) => {
                    // It is told while the permit is being taken back.
                    until(|| self.pool.in_flight() == 0);
                    return dropped;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => unreachable!("the pool is here"),
            }
        }
        panic!("a permit does not come back: {} in flight", self.pool.in_flight());
    }

    /// Nothing has ended that was not asked for.
    pub(super) fn assert_no_other_end(&self) {
        assert_eq!(self.ended.try_iter().count(), 0, "a permit came back twice");
    }
}

/// Comes back when `condition` holds.
pub(super) fn until(condition: impl Fn() -> bool) {
    let (done, waited) = mpsc::channel::<()>();
    for _ in 0..3_000 {
        if condition() {
            return;
        }
        // Nobody sends: it is only the time that passes.
        let _ = waited.recv_timeout(Duration::from_millis(10));
    }
    drop(done);
    panic!("what was waited for does not happen");
}

/// Runs `work` on a thread of its own.
pub(super) fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> thread::JoinHandle<T> {
    thread::spawn(work)
}

/// What hooks were told, in order.
#[derive(Clone, Default)]
pub(super) struct Notes(Arc<Mutex<Vec<String>>>);

impl Notes {
    pub(super) fn add(&self, note: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(note);
    }

    pub(super) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
