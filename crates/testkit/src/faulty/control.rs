//! The handle that controls a faulty store, and the counts of its calls.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_core::StoreError;

use super::gate::{CallGate, CallGateFuture};

/// The treatment of the next calls.
#[derive(Debug, Clone)]
pub(super) enum Fault {
    Pass,
    Fail(StoreError),
    Hang,
    Delay,
}

/// The counted methods.
#[derive(Debug, Clone, Copy)]
pub(super) enum Method {
    TryApply,
    Apply,
    ApplyAll,
    ApplyEach,
    Close,
}

/// The number of calls of each method of a faulty store, failed ones included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CallCounts {
    /// Calls of `try_apply`.
    pub try_apply: u64,
    /// Calls of `apply`, including those through the testing entry.
    pub apply: u64,
    /// Calls of `apply_all`, including those through the testing entry.
    pub apply_all: u64,
    /// Calls of `apply_each`.
    pub apply_each: u64,
    /// Calls of `close`.
    pub close: u64,
}

impl CallCounts {
    /// Returns the number of calls for a decision.
    pub fn decisions(&self) -> u64 {
        self.try_apply + self.apply + self.apply_all + self.apply_each
    }
}

/// A handle that sets how a [`FaultyStore`](crate::FaultyStore) treats later calls. Clones control the same store, from
/// any thread.
#[derive(Debug, Clone)]
pub struct Faults(Arc<FaultState>);

#[derive(Debug)]
struct FaultState {
    fault: Mutex<Fault>,
    gate: Arc<CallGate>,
    calls: [AtomicU64; 5],
}

impl Faults {
    pub(super) fn new() -> Self {
        Faults(Arc::new(FaultState { fault: Mutex::new(Fault::Pass), gate: Arc::default(), calls: Default::default() }))
    }

    /// Passes later calls on. Held calls stay held until [`Faults::release`].
    pub fn pass(&self) {
        self.set(Fault::Pass);
    }

    /// Fails later calls with `error`, without a call of the inner store.
    pub fn fail(&self, error: StoreError) {
        self.set(Fault::Fail(error));
    }

    /// Holds later calls: the inner store is not called until they are released.
    pub fn hang(&self) {
        self.set(Fault::Hang);
    }

    /// Applies later calls, and withholds their responses until they are released.
    pub fn delay_responses(&self) {
        self.set(Fault::Delay);
    }

    /// Lets every held call continue. Later calls are treated as before.
    pub fn release(&self) {
        self.0.gate.release();
    }

    /// Returns the number of held calls.
    pub fn held_calls(&self) -> usize {
        self.0.gate.waiter_count()
    }

    /// Returns the number of calls of each method.
    pub fn calls(&self) -> CallCounts {
        let count = |method: Method| self.0.calls[method as usize].load(Ordering::SeqCst);
        CallCounts {
            try_apply: count(Method::TryApply),
            apply: count(Method::Apply),
            apply_all: count(Method::ApplyAll),
            apply_each: count(Method::ApplyEach),
            close: count(Method::Close),
        }
    }

    pub(super) fn count(&self, method: Method) {
        self.0.calls[method as usize].fetch_add(1, Ordering::SeqCst);
    }

    pub(super) fn fault(&self) -> Fault {
        self.lock().clone()
    }

    pub(super) fn wait_for_release(&self) -> CallGateFuture {
        self.0.gate.wait()
    }

    fn set(&self, fault: Fault) {
        *self.lock() = fault;
    }

    fn lock(&self) -> MutexGuard<'_, Fault> {
        self.0.fault.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
