//! A request while it is in flight.

use std::sync::Arc;

use http::{Method, StatusCode};

use crate::concurrency::Work;
use crate::enforce::Permits;

/// A request while it is in flight. Who drops it has not seen its end: a client that hung up, a handler that panicked.
pub(super) struct Held {
    /// None once they were given back.
    permits: Option<Permits>,
    ends: Ends,
}

/// When a request has ended, and how.
#[derive(Clone)]
pub(super) struct Ends {
    /// Its response has no body, whatever its head says.
    is_head: bool,
    /// It may become another protocol.
    is_connect: bool,
    dropped_if: Option<DroppedIf>,
}

pub(super) type DroppedIf = Arc<dyn Fn(StatusCode) -> bool + Send + Sync>;

impl Ends {
    pub(super) fn new(method: &Method, dropped_if: Option<DroppedIf>) -> Self {
        Ends { is_head: *method == Method::HEAD, is_connect: *method == Method::CONNECT, dropped_if }
    }

    /// Whether nothing of a response with that status comes after its head that is still this request: a server does not
    /// even look at a body then.
    pub(super) fn at_head(&self, status: StatusCode) -> bool {
        let bodiless = status.is_informational() || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        self.is_head || bodiless || (self.is_connect && status.is_success())
    }

    /// What the work was when it ends with that status.
    pub(super) fn work(&self, status: StatusCode) -> Work {
        if self.dropped_if.as_ref().is_some_and(|dropped| dropped(status)) { Work::Dropped } else { Work::Done }
    }
}

impl Held {
    pub(super) fn new(permits: Permits, ends: Ends) -> Self {
        Held { permits: Some(permits), ends }
    }

    /// When it has ended, and how.
    pub(super) fn ends(&self) -> &Ends {
        &self.ends
    }

    /// It has ended.
    pub(super) fn end(mut self, work: Work) {
        self.give_back(work);
    }

    fn give_back(&mut self, work: Work) {
        if let Some(permits) = self.permits.take() {
            permits.release(work);
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.give_back(Work::Dropped);
    }
}
