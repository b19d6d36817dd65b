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

/// A gate in front of a service of any framework: it bounds how many requests are in flight, and then enforces their
/// limits. Adapters make a middleware of it, and the tower layers consist of the same parts. Cheap to clone: clones share
/// permits and limits.
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
/// A gate within another is work like any other to the outer one.
#[derive(Clone)]
pub struct Gate {
    pub(crate) guards: ConcurrencyGuards,
    /// The clients, skipped requests and responses, for the guards as well as for the limits.
    pub(crate) rate_limit: RateLimit,
    priority: Option<PriorityFn>,
    dropped_if: Option<DroppedIf>,
}

impl Gate {
    /// Enforces the limits of an [`Enforcer`](crate::enforce::Enforcer) (`limiter.enforcer("api")?`), a bare quota, or
    /// whatever a [`RateLimit`] says.
    pub fn new(limits: impl Into<RateLimit>) -> Self {
        Gate { guards: ConcurrencyGuards::new(), rate_limit: limits.into(), priority: None, dropped_if: None }
    }

    /// Guards how many requests are in flight, before their limits are asked: a
    /// [`Concurrency`](crate::concurrency::Concurrency), one [`PerKey`](crate::concurrency::PerKey), tenants that
    /// [share it](crate::concurrency::FairConcurrency), or several of them. A guard for each key has the key of the first limit,
    /// as that counts it.
    #[must_use]
    pub fn guards(mut self, guards: impl Into<ConcurrencyGuards>) -> Self {
        self.guards = guards.into();
        self
    }

    /// Other limits for the same guards.
    #[must_use]
    pub fn limits(mut self, limits: impl Into<RateLimit>) -> Self {
        self.rate_limit = limits.into();
        self
    }

    /// How much a request matters to the guards. Never let a client choose that.
    #[must_use]
    pub fn priority(mut self, priority: impl Fn(&RequestHead<'_>) -> Priority + Send + Sync + 'static) -> Self {
        self.priority = Some(Arc::new(priority));
        self
    }

    /// Which responses say that the work was wasted, such as `504`: none unless said otherwise, because a quick error uses
    /// capacity like any other answer.
    #[must_use]
    pub fn dropped_if(mut self, dropped: impl Fn(StatusCode) -> bool + Send + Sync + 'static) -> Self {
        self.dropped_if = Some(Arc::new(dropped));
        self
    }

    /// Lets a request in, or says what is answered to it. The future has nothing of the request in it. Dropped before it
    /// is done, it gives back what is in flight; the limits may have counted the request by then.
    pub fn admit(
        &self,
        head: &RequestHead<'_>,
    ) -> impl Future<Output = Result<AdmittedRequest, Response<String>>> + Send + use<> {
        let begun = self.rate_limit.begin(head).map(|pending| (pending, self.priority_of(head)));
        let (guards, ends) = (self.guards.clone(), self.end_rules(head));
        async move {
            let Some((pending, priority)) = begun else { return Ok(AdmittedRequest::unlimited()) };
            let answer = |outcome: &Outcome| pending.rate_limit().response(outcome);
            // Whom no limit admits does not get as far as the guards.
            let permits = if guards.is_empty() || pending.is_denied() {
                None
            } else {
                Some(pending.admit(&guards, priority).await.map_err(|outcome| answer(&outcome))?)
            };
            let outcome = pending.decide().await;
            if !outcome.is_allowed() {
                // No work was done, and how quickly that went teaches nobody anything: permits that are dropped say nothing.
                return Err(answer(&outcome));
            }
            let held = permits.map(|permits| HeldPermits::new(permits, ends));
            Ok(AdmittedRequest::new(pending, outcome, held))
        }
    }

    /// How much a request matters.
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
