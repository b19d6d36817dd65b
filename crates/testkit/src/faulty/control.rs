//! The handle that tells a faulty store what to do.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_core::StoreError;

use super::gate::{Gate, Held};

/// What becomes of the next calls.
#[derive(Debug, Clone)]
pub(super) enum Fault {
    Pass,
    Fail(StoreError),
    Hang,
    Late,
}

/// The methods that are counted.
#[derive(Debug, Clone, Copy)]
pub(super) enum Method {
    ApplyNow,
    Apply,
    ApplyAll,
    ApplyEach,
    Close,
}

/// How often each method of a faulty store was called, whatever became of the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Calls {
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

impl Calls {
    /// All calls that ask for a decision.
    pub fn decisions(&self) -> u64 {
        self.try_apply + self.apply + self.apply_all + self.apply_each
    }
}

/// Tells a [`FaultyStore`](crate::FaultyStore) what to do with the calls from now on. Clones tell the same store,
/// from any thread.
#[derive(Debug, Clone)]
pub struct Faults(Arc<Control>);

#[derive(Debug)]
struct Control {
    fault: Mutex<Fault>,
    gate: Arc<Gate>,
    calls: [AtomicU64; 5],
}

impl Faults {
    pub(super) fn new() -> Self {
        Faults(Arc::new(Control { fault: Mutex::new(Fault::Pass), gate: Arc::default(), calls: Default::default() }))
    }

    /// From now on calls pass. Those that are held stay so until [`Faults::release`].
    pub fn pass(&self) {
        self.set(Fault::Pass);
    }

    /// From now on calls fail with `error`, and nothing is asked of the inner store.
    pub fn fail(&self, error: StoreError) {
        self.set(Fault::Fail(error));
    }

    /// From now on calls hang: nothing is asked of the inner store until they are released.
    pub fn hang(&self) {
        self.set(Fault::Hang);
    }

    /// From now on calls are applied, and their answers are withheld until they are released.
    pub fn answer_late(&self) {
        self.set(Fault::Late);
    }

    /// Lets every call that is held now go on. What becomes of later calls does not change.
    pub fn release(&self) {
        self.0.gate.release();
    }

    /// How many calls are held now.
    pub fn held_calls(&self) -> usize {
        self.0.gate.waiting()
    }

    /// How often each method was called.
    pub fn calls(&self) -> Calls {
        let count = |method: Method| self.0.calls[method as usize].load(Ordering::SeqCst);
        Calls {
            try_apply: count(Method::ApplyNow),
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

    pub(super) fn held(&self) -> Held {
        self.0.gate.held()
    }

    fn set(&self, fault: Fault) {
        *self.lock() = fault;
    }

    fn lock(&self) -> MutexGuard<'_, Fault> {
        self.0.fault.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
