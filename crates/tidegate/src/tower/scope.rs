//! The request that the current task works on, for the attributes of its functions.
//!
//! A layer's future puts its request into a thread-local cell while it polls the service below, and takes it out again
//! afterwards. So a function finds the layer it runs under without an argument, on any thread. Where no attribute looks,
//! the cost is moving the request in and out.

use std::cell::RefCell;
use std::mem;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use super::request_state::RequestState;
use crate::enforce::{Enforcer, Outcome};
use crate::http::{PendingRequest, RateLimit};

thread_local! {
    static CURRENT: RefCell<RequestState> = const { RefCell::new(RequestState::Skipped) };
}

/// The settings of a layer that an attribute takes over.
#[derive(Clone)]
pub(crate) struct LayerSettings {
    pub(crate) rate_limit: RateLimit,
    /// None when enforcers are picked per request, and none was for this one.
    pub(crate) enforcer: Option<Enforcer>,
    pub(crate) address: Option<IpAddr>,
}

/// The layer above a function.
pub(crate) struct EnclosingLayer {
    pub(crate) layer: LayerSettings,
    /// The request that the layer has charged, to be refunded.
    pub(crate) taken: Option<(PendingRequest, Outcome)>,
    /// The cell from which the layer reads the outcome that is decided in its place.
    pub(crate) recorded: Option<Arc<OnceLock<Outcome>>>,
}

/// Returns the layer above, if there is one. With `replace` the caller decides in its place, unless another attribute does
/// already.
pub(crate) fn enclosing_layer(replace: bool) -> Option<EnclosingLayer> {
    CURRENT.try_with(|current| current.borrow_mut().enclosing_layer(replace)).ok().flatten()
}

/// Puts a request into the cell until the guard is dropped, by a panic too.
pub(super) fn enter(state: &mut RequestState) -> ScopeGuard<'_> {
    swap_current(state);
    ScopeGuard(state)
}

/// A guard that keeps the former content of the cell, the request of an outer layer, and puts it back when dropped.
pub(super) struct ScopeGuard<'a>(&'a mut RequestState);

impl Drop for ScopeGuard<'_> {
    fn drop(&mut self) {
        swap_current(self.0);
    }
}

fn swap_current(state: &mut RequestState) {
    // A thread that is ending has no cell any more, neither now nor when it would be swapped back.
    let _ = CURRENT.try_with(|current| mem::swap(&mut *current.borrow_mut(), state));
}

impl RequestState {
    fn enclosing_layer(&mut self, replace: bool) -> Option<EnclosingLayer> {
        let layer = match self {
            RequestState::Skipped => return None,
            RequestState::SkippedWithPolicy(rate_limit, address) => LayerSettings {
                rate_limit: rate_limit.clone(),
                enforcer: rate_limit.enforcer().cloned(),
                address: *address,
            },
            RequestState::Admitted(pending, _) => LayerSettings {
                rate_limit: pending.rate_limit().clone(),
                enforcer: Some(pending.enforcer().clone()),
                address: pending.address(),
            },
            RequestState::DecidedByHandler(layer, _) => {
                return Some(EnclosingLayer { layer: layer.clone(), taken: None, recorded: None });
            }
        };
        if !replace {
            return Some(EnclosingLayer { layer, taken: None, recorded: None });
        }
        let recorded = Arc::default();
        let taken = match mem::replace(self, RequestState::DecidedByHandler(layer.clone(), Arc::clone(&recorded))) {
            RequestState::Admitted(pending, outcome) => Some((pending, outcome)),
            _ => None,
        };
        Some(EnclosingLayer { layer, taken, recorded: Some(recorded) })
    }
}
