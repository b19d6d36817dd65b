//! `admit`, `renew` and `release`: the leases of a `concurrency` limit.

use std::future::{Future, IntoFuture};
use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use tidegate_core::{Decision, Key, Lease, OnStoreError, Quota};

use super::call::{Call, CallFuture, CallKind};
use super::{Error, Limiter};
use crate::random::SecureRandom;

impl Limiter {
    /// Requests a place of the `concurrency` limit `name` for `key`. The place is held under a lease until it is
    /// [released](Limiter::release), or until it expires because it was not [renewed](Limiter::renew).
    ///
    /// ```
    /// # use tidegate::{Limiter, Quota, seconds};
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let limiter = Limiter::builder().limit("work", Quota::concurrency(10, seconds(30))?).build()?;
    ///
    /// let admitted = limiter.admit("work", "tenant-1").await?;
    /// if admitted.decision().allowed() {
    ///     // The work, of which a long one renews now and then: limiter.renew("work", "tenant-1", lease).await?
    ///     if let Some(lease) = admitted.lease() {
    ///         limiter.release("work", "tenant-1", lease).await?;
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// When it is denied, `retry_after` is only a hint: a place may be released sooner, or renewed.
    pub fn admit<'a>(&'a self, name: &'a str, key: impl Into<Key<'a>>) -> AdmitCall<'a> {
        let lease = self.inner.leases.draw();
        AdmitCall { call: self.call(name, key.into(), CallKind::Admit(lease)), lease }
    }

    /// Renews a lease: it expires after the limit's whole time to live from now. Denied when the lease is gone, because
    /// it expired or was released. The work no longer has a place then. The cost is ignored.
    pub fn renew<'a>(&'a self, name: &'a str, key: impl Into<Key<'a>>, lease: Lease) -> Call<'a> {
        self.call(name, key.into(), CallKind::Renew(lease))
    }

    /// Releases a lease. Denied without a change when the lease is gone: it was released before, or it expired and its
    /// place may belong to another request. The cost is ignored.
    pub fn release<'a>(&'a self, name: &'a str, key: impl Into<Key<'a>>, lease: Lease) -> Call<'a> {
        self.call(name, key.into(), CallKind::Release(lease))
    }
}

/// A call that requests a lease. Nothing happens until it is awaited. A clone requests the same lease, so a caller that
/// lost the answer can retry without taking a second place.
#[must_use = "nothing happens until the call is awaited"]
#[derive(Clone)]
pub struct AdmitCall<'a> {
    call: Call<'a>,
    lease: Lease,
}

impl<'a> AdmitCall<'a> {
    /// Requests this lease instead of a new one. Use it for a retry by another process, and for traces that must be
    /// repeatable. A new lease cannot be guessed.
    pub fn lease(mut self, lease: Lease) -> Self {
        (self.call.kind, self.lease) = (CallKind::Admit(lease), lease);
        self
    }

    /// Returns the requested lease, which is known before the answer.
    pub fn requested_lease(&self) -> Lease {
        self.lease
    }

    /// Decides this call by another quota, as [`Call::with_quota`] does.
    pub fn with_quota(mut self, quota: &'a Quota) -> Self {
        self.call = self.call.with_quota(quota);
        self
    }

    /// Sets the policy for a broken store, for this call only, as [`Call::on_store_error`] does.
    pub fn on_store_error(mut self, policy: OnStoreError) -> Self {
        self.call = self.call.on_store_error(policy);
        self
    }

    /// Passes the client's whole address to the deny lists, as [`Call::address`] does.
    pub fn address(mut self, address: &'a IpAddr) -> Self {
        self.call = self.call.address(address);
        self
    }

    /// Answers without waiting, as [`Call::try_now`] does.
    pub fn try_now(&self) -> Result<AdmitDecision, Error> {
        Ok(AdmitDecision::new(self.call.try_now()?, self.lease))
    }
}

/// The call as one with a plain decision, for [`Limiter::batch`] and for a caller that chose the lease. The lease is
/// held when the decision is allowed without a reason.
impl<'a> From<AdmitCall<'a>> for Call<'a> {
    fn from(admit: AdmitCall<'a>) -> Self {
        admit.call
    }
}

impl<'a> IntoFuture for AdmitCall<'a> {
    type Output = Result<AdmitDecision, Error>;
    type IntoFuture = AdmitFuture<'a>;

    fn into_future(self) -> AdmitFuture<'a> {
        AdmitFuture { answer: self.call.into_future(), lease: self.lease }
    }
}

/// The future of an [`AdmitCall`]'s answer.
#[must_use = "futures do nothing unless polled"]
pub struct AdmitFuture<'a> {
    answer: CallFuture<'a>,
    lease: Lease,
}

impl Future for AdmitFuture<'_> {
    type Output = Result<AdmitDecision, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let lease = self.lease;
        Pin::new(&mut self.answer).poll(context).map_ok(|decision| AdmitDecision::new(decision, lease))
    }
}

/// A decision, and the lease if it was granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a denial is an answer, not an error: nothing is limited until the decision is read"]
pub struct AdmitDecision {
    decision: Decision,
    lease: Option<Lease>,
}

impl AdmitDecision {
    fn new(decision: Decision, lease: Lease) -> Self {
        // A permission with a reason is not the store's: the store was broken, or a limit in shadow mode would have
        // denied it.
        AdmitDecision { decision, lease: decision.is_unconditional().then_some(lease) }
    }

    /// Returns the decision: whether the work may start, with the limit's numbers.
    pub fn decision(&self) -> &Decision {
        &self.decision
    }

    /// Returns the lease to renew and release. `None` when the request was denied, or was allowed without a place. That
    /// happens when the store was broken and the limit fails open, and when the limit is in shadow mode and full.
    pub fn lease(&self) -> Option<Lease> {
        self.lease
    }
}

/// The source of a limiter's leases: ids that are unique across processes and cannot be guessed from other ids.
#[derive(Default)]
pub(super) struct LeaseIds(SecureRandom);

impl LeaseIds {
    fn draw(&self) -> Lease {
        Lease::from_bits(self.0.next())
    }
}
