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

/// What attributes take over from a layer.
#[derive(Clone)]
pub(crate) struct Layer {
    pub(crate) rate_limit: RateLimit,
    /// None when it is picked for each request, and was not for this one.
    pub(crate) enforcer: Option<Enforcer>,
    pub(crate) address: Option<IpAddr>,
}

/// The layer above a function.
pub(crate) struct Above {
    pub(crate) layer: Layer,
    /// What the layer has taken and is to be given back.
    pub(crate) taken: Option<(PendingRequest, Outcome)>,
    /// Where the layer looks for what is decided in its place.
    pub(crate) told: Option<Arc<OnceLock<Outcome>>>,
}

/// The layer above, if there is one. With `replace` the layer leaves the decision to who asks, unless somebody has it
/// already.
pub(crate) fn above(replace: bool) -> Option<Above> {
    CURRENT.try_with(|current| current.borrow_mut().above(replace)).ok().flatten()
}

/// Puts `admitted` into the cell until the guard is dropped, by a panic too.
pub(super) fn enter(state: &mut RequestState) -> Entered<'_> {
    swap(state);
    Entered(state)
}

/// Keeps what was in the cell before: the request of a layer further up.
pub(super) struct Entered<'a>(&'a mut RequestState);

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        swap(self.0);
    }
}

fn swap(state: &mut RequestState) {
    // A thread that is ending has no cell any more, neither now nor when it would be swapped back.
    let _ = CURRENT.try_with(|current| mem::swap(&mut *current.borrow_mut(), state));
}

impl RequestState {
    fn above(&mut self, replace: bool) -> Option<Above> {
        let layer = match self {
            RequestState::Skipped => return None,
            RequestState::SkippedUnder(rate_limit, address) => {
                Layer { rate_limit: rate_limit.clone(), enforcer: rate_limit.enforcer().cloned(), address: *address }
            }
            RequestState::Admitted(pending, _) => Layer {
                rate_limit: pending.rate_limit().clone(),
                enforcer: Some(pending.enforcer().clone()),
                address: pending.address(),
            },
            RequestState::ByHandler(layer, _) => return Some(Above { layer: layer.clone(), taken: None, told: None }),
        };
        if !replace {
            return Some(Above { layer, taken: None, told: None });
        }
        let told = Arc::default();
        let taken = match mem::replace(self, RequestState::ByHandler(layer.clone(), Arc::clone(&told))) {
            RequestState::Admitted(pending, outcome) => Some((pending, outcome)),
            _ => None,
        };
        Some(Above { layer, taken, told: Some(told) })
    }
}
