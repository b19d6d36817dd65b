//! Leave to be in flight.

use std::fmt;
use std::sync::Arc;

use tidegate_core::Timestamp;

use super::Work;

/// Leave to be in flight, given back exactly once: when it is released, or when it is dropped, by a panic, a cancelled
/// future or a return as much as by the end of a scope. A permit that is merely dropped says nothing of the work
/// ([`Work::Ignore`]).
#[must_use = "a permit that is dropped is given back at once"]
pub struct Permit {
    /// None once it was given back.
    source: Option<Arc<dyn Source>>,
    ticket: Ticket,
}

/// What a source wants to know when a permit comes back.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ticket {
    /// When it was handed out.
    pub(crate) started: Timestamp,
    /// How many were in flight then, this one included.
    pub(crate) in_flight: u32,
    /// How many that is of a limit that anybody may use up, where this one may not.
    pub(crate) of_all: u32,
}

impl Ticket {
    /// One of those who may use up the limit.
    pub(crate) fn new(started: Timestamp, in_flight: u32) -> Self {
        Ticket { started, in_flight, of_all: in_flight }
    }
}

/// Where permits come from and go back to.
pub(crate) trait Source: Send + Sync {
    /// Takes a permit back. Called once for each that was handed out.
    fn take_back(&self, ticket: &Ticket, work: Work);

    /// The same of one whose work nobody waits for any more.
    #[cfg(feature = "http")]
    fn take_back_abandoned(&self, ticket: &Ticket) {
        self.take_back(ticket, Work::Dropped);
    }
}

impl Permit {
    #[inline]
    pub(crate) fn new(source: Arc<dyn Source>, ticket: Ticket) -> Self {
        Permit { source: Some(source), ticket }
    }

    /// Gives it back, and says how the work ended.
    #[inline]
    pub fn release(mut self, work: Work) {
        self.give_back(work);
    }

    /// Gives it back because nobody waits for the work any more. Whether that says anything is for the source to judge: who
    /// has waited long for work that takes long goes away, and so does who has changed their mind.
    #[cfg(feature = "http")]
    pub(crate) fn abandon(mut self) {
        if let Some(source) = self.source.take() {
            source.take_back_abandoned(&self.ticket);
        }
    }

    /// How many were in flight when it was handed out, this one included.
    pub fn in_flight(&self) -> u32 {
        self.ticket.in_flight
    }

    #[inline]
    fn give_back(&mut self, work: Work) {
        if let Some(source) = self.source.take() {
            source.take_back(&self.ticket, work);
        }
    }
}

impl Drop for Permit {
    #[inline]
    fn drop(&mut self) {
        self.give_back(Work::Ignore);
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").field("ticket", &self.ticket).finish_non_exhaustive()
    }
}
