//! The calls of a connection that are worked on.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::sync::oneshot;

use super::super::lock::lock;
use super::super::{Code, Error};
use crate::concurrency::{Concurrency, Permit, Refused, Work};

/// The calls of a connection that are worked on: so many at once, and none twice.
pub(super) struct Calls {
    permits: Concurrency,
    running: Arc<Running>,
}

/// The ids of calls that are worked on, with how to end those that have not been given up.
type Running = Mutex<HashMap<Box<str>, Option<oneshot::Sender<()>>>>;

/// Why a call does not get in.
pub(super) enum NoSlot {
    Busy(Refused),
    /// Another call with that id is worked on.
    Taken,
}

impl Calls {
    pub(super) fn new(limit: u32) -> Self {
        Calls { permits: Concurrency::fixed(limit), running: Arc::default() }
    }

    /// Lets a call in.
    pub(super) fn enter(&self, id: &str) -> Result<Slot, NoSlot> {
        let mut running = lock(&self.running);
        if running.contains_key(id) {
            return Err(NoSlot::Taken);
        }
        let permit = self.permits.try_acquire().map_err(NoSlot::Busy)?;
        let (abort, aborted) = oneshot::channel();
        running.insert(id.into(), Some(abort));
        Ok(Slot { id: id.into(), running: Arc::clone(&self.running), aborted, permit: Some(permit) })
    }

    /// Ends a call, and says whether there was one. Its id stays taken until it has ended.
    pub(super) fn abort(&self, id: &str) -> bool {
        let abort = lock(&self.running).get_mut(id).and_then(Option::take);
        abort.is_some_and(|abort| abort.send(()).is_ok())
    }

    /// Whether a call with that id is worked on.
    pub(super) fn is_running(&self, id: &str) -> bool {
        lock(&self.running).contains_key(id)
    }

    pub(super) fn limit(&self) -> u32 {
        self.permits.limit()
    }

    pub(super) fn in_flight(&self) -> u32 {
        self.permits.in_flight()
    }
}

/// A call's place. Dropping it gives it back.
pub(super) struct Slot {
    id: Box<str>,
    running: Arc<Running>,
    aborted: oneshot::Receiver<()>,
    /// Until it is given back.
    permit: Option<Permit>,
}

impl Slot {
    /// Ends when the client gives the call up.
    pub(super) async fn aborted(&mut self) -> Error {
        // It is kept in there for as long as this slot is, so it is not dropped without being sent.
        let _ = (&mut self.aborted).await;
        Error::new(Code::Cancelled, "The call was given up")
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        lock(&self.running).remove(&self.id);
        // How long calls take is how long who finds no place should wait.
        if let Some(permit) = self.permit.take() {
            permit.release(Work::Done);
        }
    }
}
