//! The request that is worked on here and now, for the attributes of the functions that do.
//!
//! A layer's future puts its request into a cell of the thread while it polls the service below, and takes it out again
//! afterwards. So a function finds the layer it runs under without being handed anything, on whatever thread its task is
//! polled, and where no attribute looks, all it costs is moving the request back and forth.

use std::cell::RefCell;
use std::mem;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use super::admitted::Admitted;
use crate::enforce::{Enforcer, Outcome};
use crate::http::{Asking, RateLimit};

thread_local! {
    static CURRENT: RefCell<Admitted> = const { RefCell::new(Admitted::Unasked) };
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
    pub(crate) taken: Option<(Asking, Outcome)>,
    /// Where the layer looks for what is decided in its place.
    pub(crate) told: Option<Arc<OnceLock<Outcome>>>,
}

/// The layer above, if there is one. With `replace` the layer leaves the decision to who asks, unless somebody has it
/// already.
pub(crate) fn above(replace: bool) -> Option<Above> {
    CURRENT.try_with(|current| current.borrow_mut().above(replace)).ok().flatten()
}

/// Puts `admitted` into the cell until the guard is dropped, by a panic too.
pub(super) fn enter(admitted: &mut Admitted) -> Entered<'_> {
    swap(admitted);
    Entered(admitted)
}

/// Keeps what was in the cell before: the request of a layer further up.
pub(super) struct Entered<'a>(&'a mut Admitted);

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        swap(self.0);
    }
}

fn swap(admitted: &mut Admitted) {
    // A thread that is ending has no cell any more, neither now nor when it would be swapped back.
    let _ = CURRENT.try_with(|current| mem::swap(&mut *current.borrow_mut(), admitted));
}

impl Admitted {
    fn above(&mut self, replace: bool) -> Option<Above> {
        let layer = match self {
            Admitted::Unasked | Admitted::Told(_) | Admitted::ToBeTold(..) => return None,
            Admitted::Skipped(rate_limit, address) => {
                Layer { rate_limit: rate_limit.clone(), enforcer: rate_limit.enforcer().cloned(), address: *address }
            }
            Admitted::ByLayer(asking, _) => Layer {
                rate_limit: asking.rate_limit().clone(),
                enforcer: Some(asking.enforcer().clone()),
                address: asking.address(),
            },
            Admitted::ByHandler(layer, _) => return Some(Above { layer: layer.clone(), taken: None, told: None }),
        };
        if !replace {
            return Some(Above { layer, taken: None, told: None });
        }
        let told = Arc::default();
        let taken = match mem::replace(self, Admitted::ByHandler(layer.clone(), Arc::clone(&told))) {
            Admitted::ByLayer(asking, outcome) => Some((asking, outcome)),
            _ => None,
        };
        Some(Above { layer, taken, told: Some(told) })
    }
}
