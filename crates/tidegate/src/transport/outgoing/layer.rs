//! The layer and its service.

use std::fmt;
use std::mem;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tidegate_core::{BoxFuture, Decision, Key, Timestamp};
use tower_layer::Layer;
use tower_service::Service;

use super::held_off::HeldOff;
use super::{Answer, Outbound, told};
use crate::clock::before;
use crate::{Error, Limiter, Sleeper, TokioSleeper, hours, seconds};

/// Keeps requests to limits before they are sent. See the [module](super) for how it is made. Cheap to clone: clones know
/// the same.
#[derive(Clone)]
pub struct OutgoingLayer {
    limits: Option<(Limiter, Arc<str>)>,
    within: Duration,
    back_off: Duration,
    longest: Duration,
    sleeper: Arc<dyn Sleeper>,
    held_off: Arc<HeldOff>,
}

impl OutgoingLayer {
    /// Keeps to a limit of a limiter, for each host on its own, and to what servers say.
    pub fn new(limiter: &Limiter, limit: impl Into<Arc<str>>) -> Self {
        OutgoingLayer { limits: Some((limiter.clone(), limit.into())), ..OutgoingLayer::obedient() }
    }

    /// Keeps to what servers say, and to nothing else.
    pub fn obedient() -> Self {
        OutgoingLayer {
            limits: None,
            within: Duration::ZERO,
            back_off: seconds(1),
            longest: hours(1),
            sleeper: Arc::new(TokioSleeper),
            held_off: Arc::default(),
        }
    }

    /// For how long a request waits for its turn, at most; for none unless said otherwise. One whose turn would come later
    /// fails at once.
    #[must_use]
    pub fn within(mut self, within: Duration) -> Self {
        self.within = within;
        self
    }

    /// For how long a server is left alone that says `429` or `503` and not until when: a second unless said otherwise.
    #[must_use]
    pub fn back_off(mut self, back_off: Duration) -> Self {
        self.back_off = back_off;
        self
    }

    /// For how long a server is left alone at most, whatever it says: an hour unless said otherwise.
    #[must_use]
    pub fn longest(mut self, longest: Duration) -> Self {
        self.longest = longest;
        self
    }

    /// What it waits with: tokio's timer unless said otherwise. The limiter has one of its own.
    #[must_use]
    pub fn sleeper(mut self, sleeper: impl Sleeper + 'static) -> Self {
        self.sleeper = Arc::new(sleeper);
        self
    }

    /// Comes back when a request to that host may be sent.
    async fn turn<E>(&self, host: &str) -> Result<(), OutgoingError<E>> {
        let deadline = self.sleeper.now().saturating_add(self.within);
        // One for all of it: a clock that is set back would make any later one longer.
        let mut over = pin!(self.sleeper.sleep(self.within));
        let slept = self.wait_for_host(host, deadline, over.as_mut()).await.map_err(OutgoingError::HeldOff)?;
        let Some((limiter, limit)) = &self.limits else { return Ok(()) };
        let key = Key::from_parts([host]);
        // What was slept counts, too, for the same reason.
        let left = deadline.since(self.sleeper.now()).min(self.within.saturating_sub(slept));
        let mut asked_at = self.sleeper.now();
        let asked = match left {
            Duration::ZERO => limiter.limit(limit, &key).await,
            left => {
                let asked = limiter.acquire(limit, &key, left).await;
                // It was decided at the end of the line.
                asked_at = self.sleeper.now();
                asked
            }
        };
        let asked = admitted(limiter, limit, asked)?;
        // It may have said something while this one stood in line.
        let waited = self.wait_for_host(host, deadline, over).await;
        // What is not sent does not count, unless it has come back by itself.
        if waited.is_err() && asked.is_some_and(|taken| taken.next_after() > Some(self.sleeper.now().since(asked_at))) {
            // It stays taken if it cannot be given back.
            drop(limiter.refund(limit, &key).await);
        }
        waited.map(drop).map_err(OutgoingError::HeldOff)
    }

    /// Waits for a host that is left alone, until then at most. Says how long it slept, or how long that would still be.
    async fn wait_for_host(
        &self,
        host: &str,
        deadline: Timestamp,
        mut over: Pin<&mut BoxFuture<'static, ()>>,
    ) -> Result<Duration, Duration> {
        let mut slept = Duration::ZERO;
        while let Some(wait) = self.held_off.wait(host, self.sleeper.now()) {
            let is_too_long = wait > deadline.since(self.sleeper.now()).min(self.within);
            if is_too_long || before(over.as_mut(), self.sleeper.sleep(wait)).await.is_none() {
                return Err(wait);
            }
            slept += wait;
        }
        Ok(slept)
    }
}

/// The yes of a limit by which something was taken; none when its policy is to go on without its store.
fn admitted<E>(
    limiter: &Limiter,
    limit: &str,
    asked: Result<Decision, Error>,
) -> Result<Option<Decision>, OutgoingError<E>> {
    match asked {
        Ok(decision) if !decision.allowed() => Err(OutgoingError::Limited(decision)),
        Ok(decision) => Ok(Some(decision).filter(Decision::is_ordinary)),
        Err(error) if error.is_misuse() => Err(OutgoingError::Failed(error)),
        // A store within `Resilience` has applied the policy already. A bare one leaves that to who asks.
        Err(Error::Store(_)) if limiter.admits_without_store(limit) => Ok(None),
        Err(error) => Err(OutgoingError::Failed(error)),
    }
}

/// Why there is no response.
#[derive(Debug, thiserror::Error)]
pub enum OutgoingError<E> {
    /// The limit of these requests: it was not sent.
    #[error("the limit of these requests is reached")]
    Limited(Decision),
    /// The server has asked to be left alone for so long: it was not sent.
    #[error("the server has asked to be left alone for {0:?}")]
    HeldOff(Duration),
    /// The limit could not be asked, and its policy is not to go on then: it was not sent.
    #[error("the limit of these requests could not be asked")]
    Failed(#[source] Error),
    /// It was sent, or tried to be.
    #[error(transparent)]
    Service(E),
}

impl<E> OutgoingError<E> {
    /// When it is worth another try; none when nobody knows, and when it never is.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            OutgoingError::Limited(decision) => decision.retry_after(),
            OutgoingError::HeldOff(wait) => Some(*wait),
            OutgoingError::Failed(_) | OutgoingError::Service(_) => None,
        }
    }
}

impl<S> Layer<S> for OutgoingLayer {
    type Service = Outgoing<S>;

    fn layer(&self, service: S) -> Outgoing<S> {
        Outgoing { service, layer: self.clone() }
    }
}

/// A service that keeps requests to limits before it sends them, from an [`OutgoingLayer`].
#[derive(Debug, Clone)]
pub struct Outgoing<S> {
    service: S,
    layer: OutgoingLayer,
}

impl<S, R> Service<R> for Outgoing<S>
where
    S: Service<R, Response: Answer, Future: Send> + Clone + Send + 'static,
    R: Outbound + Send + 'static,
{
    type Response = S::Response;
    type Error = OutgoingError<S::Error>;
    type Future = BoxFuture<'static, Result<S::Response, Self::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.service.poll_ready(context).map_err(OutgoingError::Service)
    }

    fn call(&mut self, request: R) -> Self::Future {
        // The one that is ready goes with the request; what stays has to become ready first.
        let next = self.service.clone();
        let (mut service, layer) = (mem::replace(&mut self.service, next), self.layer.clone());
        Box::pin(async move {
            // What has no host is sent to none that could say anything.
            let host = request.host().unwrap_or_default();
            layer.turn(&host).await?;
            let response = service.call(request).await.map_err(OutgoingError::Service)?;
            let now = layer.sleeper.now();
            if let Some(wait) = told::wait(&response, now, layer.back_off) {
                let host = response.host().unwrap_or(host);
                layer.held_off.hold_off(&host, now, wait.min(layer.longest));
            }
            Ok(response)
        })
    }
}

impl fmt::Debug for OutgoingLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OutgoingLayer { limits, within, back_off, longest, .. } = self;
        let mut debug = f.debug_struct("OutgoingLayer");
        debug.field("limits", limits).field("within", within);
        debug.field("back_off", back_off).field("longest", longest).finish_non_exhaustive()
    }
}
