//! A place of a `concurrency` limit: asked for, held on to, given back.

use std::future::{Future, IntoFuture};
use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use tidegate_core::{Decision, Key, Lease, OnStoreError, Quota};

use super::call::{Call, CallFuture, Kind};
use super::{Error, Limiter};
use crate::random::Unguessable;

impl Limiter {
    /// Asks for a place of the `concurrency` limit `name` for `key`. Who gets one holds it under a lease, until it is
    /// [released](Limiter::release) or expires for not being [renewed](Limiter::renew).
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
    /// When it is denied, `retry_after` is only a hint: somebody may release a place sooner, or renew it.
    pub fn admit<'a>(&'a self, name: &'a str, key: impl Into<Key<'a>>) -> AdmitCall<'a> {
        let lease = self.inner.leases.draw();
        AdmitCall { call: Call::new(&self.inner, name, key.into(), Kind::Admit(lease)), lease }
    }

    /// Holds on to the place of a lease: it expires its limit's whole time to live from now. Denied when the lease is
    /// gone, because it expired or was released; then the work has no place any more. Its cost means nothing.
    pub fn renew<'a>(&'a self, name: &'a str, key: impl Into<Key<'a>>, lease: Lease) -> Call<'a> {
        Call::new(&self.inner, name, key.into(), Kind::Renew(lease))
    }

    /// Gives the place of a lease back. Denied, with nothing changed, when the lease is gone: it was released before, or
    /// it has expired and its place may be somebody else's. Its cost means nothing.
    pub fn release<'a>(&'a self, name: &'a str, key: impl Into<Key<'a>>, lease: Lease) -> Call<'a> {
        Call::new(&self.inner, name, key.into(), Kind::Release(lease))
    }
}

/// A question for a place: nothing happens until it is awaited. A clone asks under the same lease, so whoever lost the
/// answer can ask again without taking a second place.
#[must_use = "nothing happens until the call is awaited"]
#[derive(Clone)]
pub struct AdmitCall<'a> {
    call: Call<'a>,
    lease: Lease,
}

impl<'a> AdmitCall<'a> {
    /// Asks under this lease instead of a new one that nobody can guess: for a retry of another process, and for traces
    /// that are to be the same every time.
    pub fn lease(mut self, lease: Lease) -> Self {
        (self.call.kind, self.lease) = (Kind::Admit(lease), lease);
        self
    }

    /// The lease that is asked for, for whoever has to know it before the answer is there.
    pub fn asked_for(&self) -> Lease {
        self.lease
    }

    /// Another quota for this call only, as [`Call::quota`].
    pub fn quota(mut self, quota: &'a Quota) -> Self {
        self.call = self.call.quota(quota);
        self
    }

    /// What to do when the store is broken, for this call only, as [`Call::on_store_error`].
    pub fn on_store_error(mut self, policy: OnStoreError) -> Self {
        self.call = self.call.on_store_error(policy);
        self
    }

    /// The whole address of who asks, for the deny lists, as [`Call::address`].
    pub fn address(mut self, address: &'a IpAddr) -> Self {
        self.call = self.call.address(address);
        self
    }

    /// The answer without waiting, for code that is not async. None when it has to be waited for: the store does I/O.
    /// Nothing was done then.
    pub fn now(&self) -> Option<Result<Admitted, Error>> {
        Some(self.call.now()?.map(|decision| Admitted::new(decision, self.lease)))
    }
}

/// The same question, answered with a decision alone: for [`Limiter::each`], and for whoever chose the lease. It is held
/// when the decision is allowed without a reason.
impl<'a> From<AdmitCall<'a>> for Call<'a> {
    fn from(admit: AdmitCall<'a>) -> Self {
        admit.call
    }
}

impl<'a> IntoFuture for AdmitCall<'a> {
    type Output = Result<Admitted, Error>;
    type IntoFuture = AdmitFuture<'a>;

    fn into_future(self) -> AdmitFuture<'a> {
        AdmitFuture { answer: self.call.into_future(), lease: self.lease }
    }
}

/// The answer to an [`AdmitCall`].
#[must_use = "futures do nothing unless polled"]
pub struct AdmitFuture<'a> {
    answer: CallFuture<'a>,
    lease: Lease,
}

impl Future for AdmitFuture<'_> {
    type Output = Result<Admitted, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let lease = self.lease;
        Pin::new(&mut self.answer).poll(context).map_ok(|decision| Admitted::new(decision, lease))
    }
}

/// What became of a question for a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a denial is an answer, not an error: nothing is limited unless somebody looks at it"]
pub struct Admitted {
    decision: Decision,
    lease: Option<Lease>,
}

impl Admitted {
    fn new(decision: Decision, lease: Lease) -> Self {
        // A yes for a reason is not the store's: it was broken, or a limit in shadow mode would have denied it.
        Admitted { decision, lease: decision.is_ordinary().then_some(lease) }
    }

    /// Whether the work may start, and what the limit says beside that.
    pub fn decision(&self) -> &Decision {
        &self.decision
    }

    /// What to renew and release. None when it was denied, and when it was allowed without a place: the store was broken
    /// and the limit admits then, or it is in shadow mode and full.
    pub fn lease(&self) -> Option<Lease> {
        self.lease
    }
}

/// Where a limiter's leases come from: ids that are unique across processes, and that nobody can guess who has seen others.
#[derive(Default)]
pub(super) struct LeaseIds(Unguessable);

impl LeaseIds {
    fn draw(&self) -> Lease {
        Lease::from_bits(self.0.next())
    }
}
