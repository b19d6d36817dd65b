//! The tower layer for outgoing requests, and its service.

use std::fmt;
use std::mem;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tidegate_core::{BoxFuture, Decision, Key, Timestamp};
use tower_layer::Layer;
use tower_service::Service;

use super::backoff::{HostBackoffs, requested_backoff};
use super::{OutgoingRequest, OutgoingResponse};
use crate::clock::complete_before;
use crate::{Error, Limiter, Sleeper, TokioSleeper, hours, seconds};

/// A layer that limits outgoing requests. See the [module](super). Cheap to clone: clones share their backoffs.
#[derive(Clone)]
pub struct OutgoingLayer {
    limit: Option<(Limiter, Arc<str>)>,
    max_wait: Duration,
    default_backoff: Duration,
    max_backoff: Duration,
    sleeper: Arc<dyn Sleeper>,
    backoffs: Arc<HostBackoffs>,
}

impl OutgoingLayer {
    /// Limits requests to each host separately, and honours `Retry-After`.
    ///
    /// Returns an error if the limiter has no such limit.
    pub fn new(limiter: &Limiter, limit: impl Into<Arc<str>>) -> Result<Self, Error> {
        let limit = limit.into();
        limiter.quota(&limit)?;
        Ok(OutgoingLayer { limit: Some((limiter.clone(), limit)), ..OutgoingLayer::honor_retry_after() })
    }

    /// Honours `Retry-After` without a limit of its own.
    pub fn honor_retry_after() -> Self {
        OutgoingLayer {
            limit: None,
            max_wait: Duration::ZERO,
            default_backoff: seconds(1),
            max_backoff: hours(1),
            sleeper: Arc::new(TokioSleeper),
            backoffs: Arc::default(),
        }
    }

    /// Sets how long a request may wait for its turn. A request that would wait longer fails at once. Defaults to zero.
    #[must_use]
    pub fn max_wait(mut self, max_wait: Duration) -> Self {
        self.max_wait = max_wait;
        self
    }

    /// Sets the backoff after a `429` or `503` without `Retry-After`. Defaults to one second.
    #[must_use]
    pub fn default_backoff(mut self, default_backoff: Duration) -> Self {
        self.default_backoff = default_backoff;
        self
    }

    /// Sets the longest backoff, whatever a server asks for. Defaults to one hour.
    #[must_use]
    pub fn max_backoff(mut self, max_backoff: Duration) -> Self {
        self.max_backoff = max_backoff;
        self
    }

    /// Sets the sleeper of backoffs. Defaults to tokio's timer. The limiter has a sleeper of its own.
    #[must_use]
    pub fn sleeper(mut self, sleeper: impl Sleeper + 'static) -> Self {
        self.sleeper = Arc::new(sleeper);
        self
    }

    /// Waits until a request to the host may be sent.
    async fn wait_for_turn<E>(&self, host: &str) -> Result<(), OutgoingError<E>> {
        let deadline = self.sleeper.now().saturating_add(self.max_wait);
        // One timer for the whole wait: a clock that goes back would lengthen any later one.
        let mut timeout = pin!(self.sleeper.sleep(self.max_wait));
        let slept = self.wait_for_host(host, deadline, timeout.as_mut()).await.map_err(OutgoingError::BackingOff)?;
        let Some((limiter, limit)) = &self.limit else { return Ok(()) };
        let key = Key::from_parts([host]);
        // The sleep counts, too, for the same reason.
        let left = deadline.since(self.sleeper.now()).min(self.max_wait.saturating_sub(slept));
        let mut decided_at = self.sleeper.now();
        let result = match left {
            Duration::ZERO => limiter.limit(limit, &key).await,
            left => {
                let result = limiter.acquire(limit, &key, left).await;
                // The decision is made at the end of the queue.
                decided_at = self.sleeper.now();
                result
            }
        };
        let result = require_admitted(result)?;
        // The host may have asked to back off while this request was queued.
        let waited = self.wait_for_host(host, deadline, timeout).await;
        // An unsent request does not count. Refunding units that were replenished meanwhile would credit them twice.
        if waited.is_err()
            && result.is_some_and(|taken| taken.next_after() > Some(self.sleeper.now().since(decided_at)))
        {
            // They stay taken if the refund fails.
            drop(limiter.refund(limit, &key).await);
        }
        waited.map(drop).map_err(OutgoingError::BackingOff)
    }

    /// Waits out a host's backoff, up to the deadline. Returns how long it slept, or else the rest of the backoff.
    async fn wait_for_host(
        &self,
        host: &str,
        deadline: Timestamp,
        mut timeout: Pin<&mut BoxFuture<'static, ()>>,
    ) -> Result<Duration, Duration> {
        let mut slept = Duration::ZERO;
        while let Some(wait) = self.backoffs.remaining(host, self.sleeper.now()) {
            let is_too_long = wait > deadline.since(self.sleeper.now()).min(self.max_wait);
            if is_too_long || complete_before(timeout.as_mut(), self.sleeper.sleep(wait)).await.is_none() {
                return Err(wait);
            }
            slept += wait;
        }
        Ok(slept)
    }
}

/// Returns the decision that took units; `None` when the limit fails open.
fn require_admitted<E>(result: Result<Decision, Error>) -> Result<Option<Decision>, OutgoingError<E>> {
    match result {
        Ok(decision) if !decision.allowed() => Err(OutgoingError::Limited(decision)),
        Ok(decision) => Ok(Some(decision).filter(Decision::is_unconditional)),
        Err(error) => Err(OutgoingError::Limiter(error)),
    }
}

/// The error of a request without a response.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutgoingError<E> {
    /// The limit is exhausted. The request was not sent.
    #[error("the limit of outgoing requests is exhausted")]
    Limited(Decision),
    /// The host asked to back off for this long. The request was not sent.
    #[error("the host asked to back off for {0:?}")]
    BackingOff(Duration),
    /// The limit could not be checked and does not fail open. The request was not sent.
    #[error("the limit of outgoing requests could not be checked")]
    Limiter(#[source] Error),
    /// The inner service failed.
    #[error(transparent)]
    Service(E),
}

impl<E> OutgoingError<E> {
    /// Returns when a retry may succeed; `None` when that is unknown or never.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            OutgoingError::Limited(decision) => decision.retry_after(),
            OutgoingError::BackingOff(wait) => Some(*wait),
            OutgoingError::Limiter(_) | OutgoingError::Service(_) => None,
        }
    }
}

impl<S> Layer<S> for OutgoingLayer {
    type Service = OutgoingService<S>;

    fn layer(&self, service: S) -> OutgoingService<S> {
        OutgoingService { service, layer: self.clone() }
    }
}

/// A service that limits outgoing requests, made by an [`OutgoingLayer`].
#[derive(Debug, Clone)]
pub struct OutgoingService<S> {
    service: S,
    layer: OutgoingLayer,
}

impl<S, R> Service<R> for OutgoingService<S>
where
    S: Service<R, Response: OutgoingResponse, Future: Send> + Clone + Send + 'static,
    R: OutgoingRequest + Send + 'static,
{
    type Response = S::Response;
    type Error = OutgoingError<S::Error>;
    type Future = BoxFuture<'static, Result<S::Response, Self::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.service.poll_ready(context).map_err(OutgoingError::Service)
    }

    fn call(&mut self, request: R) -> Self::Future {
        // The ready service goes with the request; the clone must become ready first.
        let next = self.service.clone();
        let (mut service, layer) = (mem::replace(&mut self.service, next), self.layer.clone());
        Box::pin(async move {
            // A request without a host shares one key.
            let host = request.host().unwrap_or_default();
            layer.wait_for_turn(&host).await?;
            let response = service.call(request).await.map_err(OutgoingError::Service)?;
            let now = layer.sleeper.now();
            if let Some(wait) = requested_backoff(&response, now, layer.default_backoff) {
                let host = response.host().unwrap_or(host);
                layer.backoffs.extend(&host, now, wait.min(layer.max_backoff));
            }
            Ok(response)
        })
    }
}

impl fmt::Debug for OutgoingLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OutgoingLayer { limit, max_wait, default_backoff, max_backoff, .. } = self;
        let mut debug = f.debug_struct("OutgoingLayer");
        debug.field("limit", limit).field("max_wait", max_wait);
        debug.field("default_backoff", default_backoff).field("max_backoff", max_backoff).finish_non_exhaustive()
    }
}
