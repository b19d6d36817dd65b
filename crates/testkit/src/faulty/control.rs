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

/// The methods that are counted.
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
    /// Calls of `apply`, through the testing entry too.
    pub apply: u64,
    /// Calls of `apply_all`, through the testing entry too.
    pub apply_all: u64,
    /// Calls of `apply_each`.
    pub apply_each: u64,
    /// Calls of `close`.
    pub close: u64,
}

impl CallCounts {
    /// All calls for a decision.
    pub fn decisions(&self) -> u64 {
        self.try_apply + self.apply + self.apply_all + self.apply_each
    }
}

/// A handle that sets what a [`FaultyStore`](crate::FaultyStore) does with calls from now on. Clones control the same
/// store, from any thread.
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

    /// From now on calls pass. Those that are held stay so until [`Faults::release`].
    pub fn pass(&self) {
        self.set(Fault::Pass);
    }

    /// From now on calls fail with `error`, and the inner store is not called.
    pub fn fail(&self, error: StoreError) {
        self.set(Fault::Fail(error));
    }

    /// From now on calls hang: the inner store is not called until they are released.
    pub fn hang(&self) {
        self.set(Fault::Hang);
    }

    /// From now on calls are applied, and their responses are withheld until they are released.
    pub fn delay_responses(&self) {
        self.set(Fault::Delay);
    }

    /// Lets every held call continue. Later calls are treated as before.
    pub fn release(&self) {
        self.0.gate.release();
    }

    /// How many calls are held now.
    pub fn held_calls(&self) -> usize {
        self.0.gate.waiter_count()
    }

    /// How often each method was called.
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
