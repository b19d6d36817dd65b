//! `Permit`: permission to be in flight, released exactly once.

use std::fmt;
use std::future::{Future, pending};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidegate_core::{BoxFuture, Timestamp, millis, minutes, seconds};

/// Permission to be in flight. It is released exactly once: explicitly, or when it is dropped. A panic, a cancelled
/// future and an early return drop it, too. A dropped permit reports [`Completion::Ignored`].
#[must_use = "a permit that is dropped is released at once"]
pub struct Permit {
    /// None once it was released.
    source: Option<Arc<dyn PermitSource>>,
    ticket: PermitTicket,
}

/// The outcome of the work that a [`Permit`] was for. A [`Controller`](super::Controller) learns from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Completion {
    /// The work used its capacity, whatever the result: a quick error counts, too.
    Success,
    /// The work was wasted: it took too long, or its client is gone.
    Dropped,
    /// The outcome says nothing about the load. A permit that is dropped reports this.
    Ignored,
}

impl Completion {
    /// All outcomes.
    pub const ALL: [Completion; 3] = [Completion::Success, Completion::Dropped, Completion::Ignored];

    /// Returns the name in JSON and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Completion::Success => "done",
            Completion::Dropped => "dropped",
            Completion::Ignored => "ignore",
        }
    }
}

impl fmt::Display for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The data of a permit that its source needs at the release.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PermitTicket {
    /// When the permit was acquired.
    pub(crate) started: Timestamp,
    /// How many were in flight then, this one included.
    pub(crate) in_flight: u32,
    /// `in_flight` scaled to the whole limit, for a permit that may use only a part of it.
    pub(crate) in_flight_of_limit: u32,
}

impl PermitTicket {
    /// Creates the ticket of a permit that may use the whole limit.
    pub(crate) fn new(started: Timestamp, in_flight: u32) -> Self {
        PermitTicket { started, in_flight, in_flight_of_limit: in_flight }
    }
}

/// The limiter that a permit comes from.
pub(crate) trait PermitSource: Send + Sync {
    /// Takes a permit back. Called once for each permit.
    fn release(&self, ticket: &PermitTicket, completion: Completion);

    /// Takes a permit back whose client has left before the work was done.
    #[cfg(feature = "http")]
    fn release_abandoned(&self, ticket: &PermitTicket) {
        self.release(ticket, Completion::Dropped);
    }

    /// Returns whether a permit may have been lost although it was not released.
    fn is_lost(&self) -> bool {
        false
    }

    /// Waits until [`Self::is_lost`].
    fn lost(&self) -> BoxFuture<'static, ()> {
        Box::pin(pending())
    }
}

impl Permit {
    #[inline]
    pub(crate) fn new(source: Arc<dyn PermitSource>, ticket: PermitTicket) -> Self {
        Permit { source: Some(source), ticket }
    }

    /// Releases the permit and reports the outcome of the work.
    #[inline]
    pub fn release(mut self, completion: Completion) {
        self.release_once(completion);
    }

    /// Releases the permit because the client has left. The source decides whether that is a sign of overload: a client
    /// leaves because the work took long, or because it changed its mind.
    #[cfg(feature = "http")]
    pub(crate) fn abandon(mut self) {
        if let Some(source) = self.source.take() {
            source.release_abandoned(&self.ticket);
        }
    }

    /// Returns how many were in flight when it was acquired, this one included.
    pub fn in_flight(&self) -> u32 {
        self.ticket.in_flight
    }

    /// Returns whether the permit was lost: its lease may have expired, and its place may belong to another caller.
    /// Work that still continues exceeds the limit. A permit stays lost.
    ///
    /// Only permits of a `DistributedConcurrency` can be lost, and those of a limit in shadow mode never are.
    pub fn is_lost(&self) -> bool {
        self.source.as_ref().is_some_and(|source| source.is_lost())
    }

    /// Waits until the permit [is lost](Self::is_lost). The future does not borrow the permit, and never ends once that was
    /// released.
    ///
    /// ```
    /// # #[cfg(feature = "tokio")]
    /// # async fn example(permit: tidegate::concurrency::Permit, export: impl Future<Output = ()>) {
    /// tokio::select! {
    ///     () = export => permit.release(tidegate::concurrency::Completion::Success),
    ///     () = permit.lost() => eprintln!("the store was away for too long; the export has stopped"),
    /// }
    /// # }
    /// ```
    pub fn lost(&self) -> impl Future<Output = ()> + Send + Unpin + use<> {
        self.source.as_ref().map_or_else(|| Box::pin(pending()) as BoxFuture<'static, ()>, |source| source.lost())
    }

    #[inline]
    fn release_once(&mut self, completion: Completion) {
        if let Some(source) = self.source.take() {
            source.release(&self.ticket, completion);
        }
    }
}

impl Drop for Permit {
    #[inline]
    fn drop(&mut self) {
        self.release_once(Completion::Ignored);
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").field("ticket", &self.ticket).finish_non_exhaustive()
    }
}

/// The recent average of how long permits are held: the retry hint of rejections. Two concurrent updates may lose one of
/// them, which a hint tolerates.
#[derive(Debug, Default)]
pub(super) struct HoldTime(AtomicU64);

impl HoldTime {
    /// Records a permit that was held for that span.
    pub(super) fn record(&self, from: Timestamp, to: Timestamp) {
        let micros = u64::try_from(to.since(from).as_micros()).unwrap_or(u64::MAX).max(1);
        let average = self.0.load(Ordering::Relaxed);
        let average = if average == 0 { micros } else { average - average / 8 + micros / 8 };
        self.0.store(average.max(1), Ordering::Relaxed);
    }

    /// Returns the retry hint: a second while nothing is known.
    pub(super) fn retry_after(&self) -> Duration {
        self.hint().unwrap_or(seconds(1))
    }

    /// Returns the average, from a millisecond to a minute, if anything is known.
    pub(super) fn hint(&self) -> Option<Duration> {
        self.average().map(|average| average.clamp(millis(1), minutes(1)))
    }

    /// Returns the average, if anything is known.
    pub(super) fn average(&self) -> Option<Duration> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            micros => Some(Duration::from_micros(micros)),
        }
    }
}
