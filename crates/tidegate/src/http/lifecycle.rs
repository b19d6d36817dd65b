//! The life of a request: pending, admitted, in flight until the last piece of its response's body, done.

use std::fmt;
#[cfg(all(feature = "macros", feature = "tower"))]
use std::net::IpAddr;
use std::sync::Arc;

use http::header::CONTENT_LENGTH;
use http::{Extensions, HeaderMap, Method, StatusCode};
#[cfg(all(feature = "macros", feature = "tower"))]
use tidegate_core::Timestamp;

use super::RateLimit;
#[cfg(all(feature = "macros", feature = "tower"))]
use crate::clock::{Clock, SystemClock};
use crate::concurrency::{Completion, Priority};
#[cfg(all(feature = "macros", feature = "tower"))]
use crate::enforce::LimitDecision;
use crate::enforce::{Action, Caller, ConcurrencyGuards, Enforcer, Outcome, Permits};

/// A request whose limits are not decided yet, or whose response is not charged yet.
///
/// ```text
/// rate_limit.begin -> pending.decide -> turned away: rate_limit.response
///                                                  -> admitted: the service -> pending.charge -> rate_limit.write_headers
/// ```
#[derive(Debug)]
pub struct PendingRequest {
    pub(super) rate_limit: RateLimit,
    /// The enforcer that was picked for this request.
    pub(super) picked_enforcer: Option<Enforcer>,
    /// `None` when the client is unknown.
    pub(super) caller: Option<Caller<'static>>,
    pub(super) cost: u64,
    /// The start of the request, for refunds.
    #[cfg(all(feature = "macros", feature = "tower"))]
    pub(super) started_at: Timestamp,
}

impl PendingRequest {
    /// Returns the policy of the service.
    pub fn rate_limit(&self) -> &RateLimit {
        &self.rate_limit
    }

    /// Passes the concurrency guards without waiting. Returns `None` if the request must wait. Nothing was done then.
    pub fn try_admit(&self, guards: &ConcurrencyGuards, priority: Priority) -> Option<Result<Permits, Outcome>> {
        self.enforcer().try_admit(guards, self.caller.as_ref(), priority)
    }

    /// Passes the concurrency guards.
    pub async fn admit(&self, guards: &ConcurrencyGuards, priority: Priority) -> Result<Permits, Outcome> {
        self.enforcer().admit(guards, self.caller.as_ref(), priority).await
    }

    /// Returns whether a deny list denies the request, so that it should cost nothing.
    pub fn is_denied(&self) -> bool {
        self.caller.as_ref().is_some_and(|caller| self.enforcer().denies(caller))
    }

    /// Decides the request without waiting. Returns `None` if the store must be awaited. Nothing was done then.
    pub fn try_decide(&self) -> Option<Outcome> {
        self.try_apply(self.rate_limit.first_action())
    }

    /// Decides the request.
    pub async fn decide(&self) -> Outcome {
        self.apply(self.rate_limit.first_action()).await
    }

    /// Adds the outcome of an admitted request to its extensions, if the policy wants that.
    #[inline]
    pub fn insert_outcome(&self, outcome: &Outcome, extensions: &mut Extensions) {
        self.rate_limit.insert_outcome(outcome, extensions);
    }

    /// Returns whether such a response must be charged by [`charge`](Self::charge).
    #[inline]
    pub fn should_charge(&self, status: StatusCode, headers: &HeaderMap) -> bool {
        self.rate_limit.charges(status, headers)
    }

    /// Charges for a request whose response is known, without waiting. Returns `None` if the store must be awaited.
    /// Nothing was done then.
    pub fn try_charge(&self) -> Option<Outcome> {
        self.try_apply(Action::Charge)
    }

    /// Charges for a request whose response is known.
    pub async fn charge(&self) -> Outcome {
        self.apply(Action::Charge).await
    }

    /// Refunds the units that `outcome` took, because a handler's attribute decides instead. It refunds nothing when
    /// units have been replenished since, because both together could exceed the quota.
    #[cfg(all(feature = "macros", feature = "tower"))]
    pub(crate) async fn refund(&self, outcome: &Outcome) {
        let elapsed = SystemClock.now().since(self.started_at);
        let is_unreplenished = |limit: &LimitDecision| limit.decision().next_after().is_some_and(|next| elapsed < next);
        if self.rate_limit.first_action() == Action::Limit
            && outcome.is_unconditional()
            && outcome.limit_decisions().iter().all(is_unreplenished)
        {
            let _ = self.apply(Action::Refund).await;
        }
    }

    /// Returns the address of the client, if it is known.
    #[cfg(all(feature = "macros", feature = "tower"))]
    pub(crate) fn address(&self) -> Option<IpAddr> {
        self.caller.as_ref()?.address().copied()
    }

    /// Returns the enforcer of the request.
    pub(crate) fn enforcer(&self) -> &Enforcer {
        let enforcer = self.rate_limit.enforcer().or(self.picked_enforcer.as_ref());
        enforcer.expect("limits that are not common to all requests were picked for this one")
    }

    fn try_apply(&self, action: Action) -> Option<Outcome> {
        match &self.caller {
            Some(caller) => self.enforcer().try_apply(caller, self.cost, action),
            None => Some(self.enforcer().missing_key()),
        }
    }

    async fn apply(&self, action: Action) -> Outcome {
        match &self.caller {
            Some(caller) => self.enforcer().apply(caller, self.cost, action).await,
            None => self.enforcer().missing_key(),
        }
    }
}

/// A request that a [`Gate`](super::Gate) has admitted, while its service works on it. Dropping it means that the
/// request was abandoned, for example because the client disconnected.
#[derive(Debug)]
#[must_use = "a request that is dropped is no longer in flight"]
pub struct AdmittedRequest {
    /// `None` for a request without limits.
    limited: Option<(PendingRequest, Outcome)>,
    /// `None` without guards.
    held: Option<HeldPermits>,
}

impl AdmittedRequest {
    pub(super) fn unlimited() -> Self {
        AdmittedRequest { limited: None, held: None }
    }

    pub(super) fn new(pending: PendingRequest, outcome: Outcome, held: Option<HeldPermits>) -> Self {
        AdmittedRequest { limited: Some((pending, outcome)), held }
    }

    /// Returns the outcome, if [`RateLimit::extension`](super::RateLimit::extension) is set.
    pub fn outcome(&self) -> Option<&Outcome> {
        self.limited.as_ref().filter(|(pending, _)| pending.rate_limit().wants_extension()).map(|(_, outcome)| outcome)
    }

    /// Adds the outcome to extensions, where handlers of most frameworks find it.
    pub fn insert_outcome(&self, extensions: &mut Extensions) {
        if let Some(outcome) = self.outcome() {
            extensions.insert(outcome.clone());
        }
    }

    /// Makes a charge that waited for the response, and writes the headers of its limits. `length` is the length of the
    /// body, if it is known and no header has it. Keep the result with the body.
    pub async fn finish(mut self, status: StatusCode, headers: &mut HeaderMap, length: Option<u64>) -> InFlight {
        if let Some((pending, mut outcome)) = self.limited.take() {
            if pending.should_charge(status, headers) {
                outcome = pending.charge().await;
            }
            pending.rate_limit().write_headers(&outcome, headers);
        }
        InFlight::begin(self.held.take(), status, headers, length)
    }
}

/// The permits of a request while its service works on it. Dropping it means that the end was not seen, because the
/// client disconnected or the handler panicked.
#[derive(Debug)]
pub(crate) struct HeldPermits {
    /// `None` after the release.
    permits: Option<Permits>,
    ends: EndRules,
}

/// The rules for the end of a request.
#[derive(Clone)]
pub(crate) struct EndRules {
    /// The response has no body, even if its headers say so.
    is_head: bool,
    /// The connection may switch to another protocol.
    is_connect: bool,
    /// A limit has rejected the request, so its duration is no sample.
    is_ignored: bool,
    dropped_if: Option<DroppedIf>,
}

pub(crate) type DroppedIf = Arc<dyn Fn(StatusCode) -> bool + Send + Sync>;

impl EndRules {
    pub(super) fn new(method: &Method, dropped_if: Option<DroppedIf>) -> Self {
        let (is_head, is_connect) = (*method == Method::HEAD, *method == Method::CONNECT);
        EndRules { is_head, is_connect, is_ignored: false, dropped_if }
    }

    /// Returns whether a response with that status ends with its head. A server does not read a body then.
    fn ends_at_head(&self, status: StatusCode) -> bool {
        let bodiless = status.is_informational() || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        self.is_head || bodiless || (self.is_connect && status.is_success())
    }

    /// Returns the completion of work that ends with that status.
    fn completion(&self, status: StatusCode) -> Completion {
        match &self.dropped_if {
            _ if self.is_ignored => Completion::Ignored,
            Some(dropped_if) if dropped_if(status) => Completion::Dropped,
            _ => Completion::Success,
        }
    }
}

impl HeldPermits {
    pub(crate) fn new(permits: Permits, ends: EndRules) -> Self {
        HeldPermits { permits: Some(permits), ends }
    }

    /// Ignores the duration of a request that a limit has rejected. Its response is still in flight.
    #[cfg(feature = "tower")]
    pub(crate) fn ignored(mut self) -> Self {
        self.ends.is_ignored = true;
        self
    }

    /// Ends the request.
    pub(crate) fn end(mut self, completion: Completion) {
        if let Some(permits) = self.permits.take() {
            permits.release(completion);
        }
    }
}

impl Drop for HeldPermits {
    fn drop(&mut self) {
        if let Some(permits) = self.permits.take() {
            if self.ends.is_ignored {
                permits.release(Completion::Ignored);
            } else {
                permits.abandon();
            }
        }
    }
}

/// A request whose response is being sent. Keep it with the body: its permits are released exactly once.
///
/// Dropped before the end, because the client disconnected or the body failed, the work counts as
/// [wasted](Completion::Dropped). It does not count if the drop came sooner than work usually takes, or if a limit
/// rejected the request.
#[derive(Debug, Default)]
#[must_use = "a request that is dropped is no longer in flight"]
pub struct InFlight(Option<ResponseInFlight>);

#[derive(Debug)]
struct ResponseInFlight {
    held: HeldPermits,
    /// The completion if the body reaches its end.
    completion: Completion,
    /// The number of bytes left, if it is known. A server stops there and does not poll the body again.
    left: Option<u64>,
}

impl InFlight {
    /// Moves the permits to the body.
    pub(crate) fn begin(
        held: Option<HeldPermits>,
        status: StatusCode,
        headers: &HeaderMap,
        length: Option<u64>,
    ) -> Self {
        let Some(held) = held else { return InFlight(None) };
        let completion = held.ends.completion(status);
        // From the head, or as the server knows it.
        let left = content_length(headers).or(length);
        let is_over = held.ends.ends_at_head(status) || left == Some(0);
        let mut in_flight = InFlight(Some(ResponseInFlight { held, completion, left }));
        if is_over {
            in_flight.end();
        }
        in_flight
    }

    /// Returns whether the request has ended, so that nothing needs to be kept with the body.
    pub fn is_over(&self) -> bool {
        self.0.is_none()
    }

    /// Records that a piece of the body of that length was sent. The last announced byte ends the request.
    pub fn record_chunk(&mut self, length: u64) {
        if let Some(ResponseInFlight { left: Some(left), .. }) = &mut self.0 {
            *left = left.saturating_sub(length);
            if *left == 0 {
                self.end();
            }
        }
    }

    /// Ends the request at the end of its body.
    pub fn end(&mut self) {
        if let Some(ResponseInFlight { held, completion, .. }) = self.0.take() {
            held.end(completion);
        }
    }

    /// Ends the request because its body failed.
    pub fn fail(&mut self) {
        self.0 = None;
    }
}

fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

impl fmt::Debug for EndRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let EndRules { is_head, is_connect, .. } = self;
        f.debug_struct("EndRules").field("is_head", is_head).field("is_connect", is_connect).finish_non_exhaustive()
    }
}
