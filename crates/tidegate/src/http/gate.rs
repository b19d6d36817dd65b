//! The gate in front of a service: concurrency guards, then limits, for any framework.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use http::{Response, StatusCode};

use super::lifecycle::{DroppedIf, EndRules, HeldPermits};
use super::{AdmittedRequest, RateLimit, RequestHead};
use crate::concurrency::Priority;
use crate::enforce::{ConcurrencyGuards, Outcome};

type PriorityFn = Arc<dyn Fn(&RequestHead<'_>) -> Priority + Send + Sync>;

/// A gate in front of a service of any framework: bounds the requests in flight, and then enforces their limits.
/// Adapters wrap it in a middleware, and the tower layers have the same parts. Cheap to clone: clones share permits and
/// limits.
///
/// ```
/// use tidegate::concurrency::Concurrency;
/// use tidegate::http::Gate;
/// use tidegate::{Limiter, Quota, seconds};
///
/// let limiter = Limiter::builder().limit("api", Quota::token_bucket(10, seconds(1))?).build()?;
/// let gate = Gate::new(limiter.enforcer("api")?).guards(Concurrency::fixed(100));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// For a framework without an adapter crate, this is the whole life of a request ([`adapter`](super::adapter) helps):
///
/// ```text
/// gate.admit(&head).await -> turned away: the response
///                             -> admitted: the service
/// admitted.finish(status, headers, length).await -> in_flight, kept with the body
/// ```
///
/// For an outer gate, an inner gate is a part of the work.
#[derive(Clone)]
pub struct Gate {
    pub(crate) guards: ConcurrencyGuards,
    /// The clients, and the skipped requests and responses, for the guards and the limits.
    pub(crate) rate_limit: RateLimit,
    priority: Option<PriorityFn>,
    dropped_if: Option<DroppedIf>,
}

impl Gate {
    /// Creates a gate that enforces an [`Enforcer`](crate::enforce::Enforcer) (`limiter.enforcer("api")?`), a bare
    /// quota, or a [`RateLimit`].
    pub fn new(limits: impl Into<RateLimit>) -> Self {
        Gate { guards: ConcurrencyGuards::new(), rate_limit: limits.into(), priority: None, dropped_if: None }
    }

    /// Sets guards that bound the requests in flight, before their limits: a
    /// [`Concurrency`](crate::concurrency::Concurrency), a [`PerKey`](crate::concurrency::PerKey), tenants that
    /// [share](crate::concurrency::FairConcurrency) it, or several of them. A guard for each key uses the key of the
    /// first limit, as normalized by that limit.
    #[must_use]
    pub fn guards(mut self, guards: impl Into<ConcurrencyGuards>) -> Self {
        self.guards = guards.into();
        self
    }

    /// Sets other limits behind the guards.
    #[must_use]
    pub fn limits(mut self, limits: impl Into<RateLimit>) -> Self {
        self.rate_limit = limits.into();
        self
    }

    /// Sets the priority of a request for the guards. Never let a client choose it.
    #[must_use]
    pub fn priority(mut self, priority: impl Fn(&RequestHead<'_>) -> Priority + Send + Sync + 'static) -> Self {
        self.priority = Some(Arc::new(priority));
        self
    }

    /// Sets the statuses of wasted work, such as `504`. Defaults to none, because a quick error uses capacity like any
    /// other answer.
    #[must_use]
    pub fn dropped_if(mut self, dropped: impl Fn(StatusCode) -> bool + Send + Sync + 'static) -> Self {
        self.dropped_if = Some(Arc::new(dropped));
        self
    }

    /// Admits a request, or returns the response that rejects it. The future does not borrow the request. Dropped
    /// early, it releases all permits, but the limits may have counted the request.
    pub fn admit(
        &self,
        head: &RequestHead<'_>,
    ) -> impl Future<Output = Result<AdmittedRequest, Response<String>>> + Send + use<> {
        let begun = self.rate_limit.begin(head).map(|pending| (pending, self.priority_of(head)));
        let (guards, ends) = (self.guards.clone(), self.end_rules(head));
        async move {
            let Some((pending, priority)) = begun else { return Ok(AdmittedRequest::unlimited()) };
            let answer = |outcome: &Outcome| pending.rate_limit().response(outcome);
            // A denied client never reaches the guards.
            let permits = if guards.is_empty() || pending.is_denied() {
                None
            } else {
                Some(pending.admit(&guards, priority).await.map_err(|outcome| answer(&outcome))?)
            };
            let outcome = pending.decide().await;
            if !outcome.is_allowed() {
                // No work was done, so its duration is no sample: dropped permits report nothing.
                return Err(answer(&outcome));
            }
            let held = permits.map(|permits| HeldPermits::new(permits, ends));
            Ok(AdmittedRequest::new(pending, outcome, held))
        }
    }

    /// Returns the priority of a request.
    pub(crate) fn priority_of(&self, head: &RequestHead<'_>) -> Priority {
        let Some(priority) = &self.priority else { return Priority::Default };
        let client = self.rate_limit.client(head);
        priority(&head.with_client(client.as_ref()))
    }

    /// Returns the rules for the end of a request.
    pub(crate) fn end_rules(&self, head: &RequestHead<'_>) -> EndRules {
        EndRules::new(head.method(), self.dropped_if.clone())
    }
}

impl<L: Into<RateLimit>> From<L> for Gate {
    fn from(limits: L) -> Self {
        Gate::new(limits)
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Gate { guards, rate_limit, .. } = self;
        f.debug_struct("Gate").field("guards", guards).field("rate_limit", rate_limit).finish_non_exhaustive()
    }
}
