//! Fixtures of the cases: limits on a stopped clock, and an observed pool of permits.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use tidegate::concurrency::{Concurrency, Controller, Sample};
use tidegate::http::Gate;
use tidegate::{Limiter, LimiterBuilder, ManualClock, MemoryStore, Quota, Timestamp, minutes};

/// Returns a quota of `rate` a minute.
pub(super) fn per_minute(rate: u64) -> Quota {
    Quota::fixed_window(rate, minutes(1)).expect("a quota")
}

/// Creates a store on a clock that stands still at the beginning of a minute.
pub(super) fn memory_store() -> MemoryStore {
    let clock = ManualClock::new(Timestamp::from_millis(1_800_000_000_000));
    MemoryStore::builder().max_keys(256).clock(clock).build()
}

/// Creates a limiter builder with such a store.
pub(super) fn limiter_builder() -> LimiterBuilder {
    Limiter::builder().store(memory_store())
}

/// Creates a limiter with one limit, of `rate` a minute, on a clock that stands still.
pub fn limiter(name: &str, rate: u64) -> Limiter {
    limiter_builder().limit(name, per_minute(rate)).build().expect("a limiter")
}

/// Creates a gate with one limit, of `rate` a minute for each client, on a clock that stands still.
pub fn gate(name: &str, rate: u64) -> Gate {
    Gate::new(limiter(name, rate).enforcer(name).unwrap())
}

/// Creates a limiter with the one limit `api`.
pub(super) fn api_limiter(rate: u64) -> Limiter {
    limiter("api", rate)
}

/// A pool of permits that records whether each request completed or was dropped.
pub(super) struct ObservedPool {
    pub(super) pool: Concurrency,
    outcomes: Receiver<bool>,
}

pub(super) const COMPLETED: bool = false;
pub(super) const DROPPED: bool = true;

struct Recorder(u32, Sender<bool>);

impl Controller for Recorder {
    fn limit(&self) -> u32 {
        self.0
    }

    fn observe(&mut self, sample: &Sample) {
        // The receiver is gone after the end of the case.
        let _ = self.1.send(sample.dropped);
    }
}

impl ObservedPool {
    pub(super) fn new(limit: u32) -> Self {
        let (sender, outcomes) = mpsc::channel();
        ObservedPool { pool: Concurrency::adaptive(Recorder(limit, sender)), outcomes }
    }

    /// Waits for the next request to end. Returns whether it was dropped. Calls `meanwhile` repeatedly.
    pub(super) fn next_end(&self, meanwhile: impl Fn()) -> bool {
        for _ in 0..3_000 {
            meanwhile();
            match self.outcomes.recv_timeout(Duration::from_millis(10)) {
                Ok(dropped) => {
                    // The sample arrives before the permit is back.
                    wait_until(|| self.pool.in_flight() == 0);
                    return dropped;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => unreachable!("the pool is here"),
            }
        }
        panic!("a permit does not come back: {} in flight", self.pool.in_flight());
    }

    /// Asserts that no other request has ended.
    pub(super) fn assert_all_ended(&self) {
        assert_eq!(self.outcomes.try_iter().count(), 0, "a permit came back twice");
    }
}

/// Waits until `condition` holds.
pub(super) fn wait_until(condition: impl Fn() -> bool) {
    let (done, waited) = mpsc::channel::<()>();
    for _ in 0..3_000 {
        if condition() {
            return;
        }
        // Nothing is ever sent, so this is a sleep.
        let _ = waited.recv_timeout(Duration::from_millis(10));
    }
    drop(done);
    panic!("the condition does not become true");
}

/// Runs `work` on a new thread.
pub(super) fn spawn<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> thread::JoinHandle<T> {
    thread::spawn(work)
}

/// A log of the events that hooks received, in order.
#[derive(Clone, Default)]
pub(super) struct EventLog(Arc<Mutex<Vec<String>>>);

impl EventLog {
    pub(super) fn add(&self, event: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(event);
    }

    pub(super) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
