//! A request while it is in flight.

use std::fmt;
use std::sync::Arc;

use http::header::CONTENT_LENGTH;
use http::{HeaderMap, Method, StatusCode};

use crate::concurrency::Work;
use crate::enforce::Permits;

/// A request while its service works on it. Who drops it has not seen its end: a client that hung up, a handler that
/// panicked.
#[derive(Debug)]
pub(crate) struct Held {
    /// None once they were given back.
    permits: Option<Permits>,
    ends: Ends,
}

/// When a request has ended, and how.
#[derive(Clone)]
pub(crate) struct Ends {
    /// Its response has no body, whatever its head says.
    is_head: bool,
    /// It may become another protocol.
    is_connect: bool,
    /// A limit has turned it away, so that how long it took says nothing about work.
    is_ignored: bool,
    dropped_if: Option<DroppedIf>,
}

pub(crate) type DroppedIf = Arc<dyn Fn(StatusCode) -> bool + Send + Sync>;

impl Ends {
    pub(super) fn new(method: &Method, dropped_if: Option<DroppedIf>) -> Self {
        let (is_head, is_connect) = (*method == Method::HEAD, *method == Method::CONNECT);
        Ends { is_head, is_connect, is_ignored: false, dropped_if }
    }

    /// Whether nothing of a response with that status comes after its head that is still this request: a server does not
    /// even look at a body then.
    fn at_head(&self, status: StatusCode) -> bool {
        let bodiless = status.is_informational() || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        self.is_head || bodiless || (self.is_connect && status.is_success())
    }

    /// What the work was when it ends with that status.
    fn work(&self, status: StatusCode) -> Work {
        match &self.dropped_if {
            _ if self.is_ignored => Work::Ignore,
            Some(dropped_if) if dropped_if(status) => Work::Dropped,
            _ => Work::Done,
        }
    }
}

impl Held {
    pub(crate) fn new(permits: Permits, ends: Ends) -> Self {
        Held { permits: Some(permits), ends }
    }

    /// The same for a request that a limit has turned away. Whatever is answered to it is in flight all the same.
    #[cfg(feature = "tower")]
    pub(crate) fn ignored(mut self) -> Self {
        self.ends.is_ignored = true;
        self
    }

    /// It has ended.
    pub(crate) fn end(mut self, work: Work) {
        if let Some(permits) = self.permits.take() {
            permits.release(work);
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(permits) = self.permits.take() {
            if self.ends.is_ignored {
                permits.release(Work::Ignore);
            } else {
                permits.abandon();
            }
        }
    }
}

/// A request whose response is under way, kept with the body: its permits come back exactly once. Dropped before its end,
/// by a client that hung up or a body that failed, the work was [wasted](Work::Dropped); unless that was sooner than
/// work usually takes, which says nothing, as nothing does that becomes of a request which a limit has turned away.
#[derive(Debug, Default)]
#[must_use = "a request that is dropped is no longer in flight"]
pub struct InFlight(Option<Underway>);

#[derive(Debug)]
struct Underway {
    held: Held,
    /// What the work was if the body comes to its end.
    work: Work,
    /// How much of the body is to come, where that is known: a server stops there and does not ask for more.
    left: Option<u64>,
}

impl InFlight {
    /// From here on it is the body that holds it.
    pub(crate) fn begin(held: Option<Held>, status: StatusCode, headers: &HeaderMap, length: Option<u64>) -> Self {
        let Some(held) = held else { return InFlight(None) };
        let work = held.ends.work(status);
        // Told in the head, or by the server to itself.
        let left = content_length(headers).or(length);
        let is_over = held.ends.at_head(status) || left == Some(0);
        let mut in_flight = InFlight(Some(Underway { held, work, left }));
        if is_over {
            in_flight.end();
        }
        in_flight
    }

    /// Whether there is nothing to be kept with the body: its permits are back, or there were none.
    pub fn is_over(&self) -> bool {
        self.0.is_none()
    }

    /// A piece of the body, so long, was handed to the server. The last that was promised ends it.
    pub fn hand_over(&mut self, length: u64) {
        if let Some(Underway { left: Some(left), .. }) = &mut self.0 {
            *left = left.saturating_sub(length);
            if *left == 0 {
                self.end();
            }
        }
    }

    /// The body has come to its end.
    pub fn end(&mut self) {
        if let Some(Underway { held, work, .. }) = self.0.take() {
            held.end(work);
        }
    }

    /// The body has failed.
    pub fn fail(&mut self) {
        self.0 = None;
    }
}

fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

impl fmt::Debug for Ends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ends { is_head, is_connect, .. } = self;
        f.debug_struct("Ends").field("is_head", is_head).field("is_connect", is_connect).finish_non_exhaustive()
    }
}
