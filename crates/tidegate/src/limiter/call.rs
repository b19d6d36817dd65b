//! One question to a limiter, and its answer.

use std::future::{Future, IntoFuture};
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tidegate_core::{BoxFuture, Cost, Decision, Key, Lease, OnStoreError, Op, Quota};

use super::decides::Decides;
use super::limits::{Limits, Named};
use super::route::Asked;
use super::terms::Terms;
use super::{Error, Inner};

/// One question to a limiter: nothing happens until it is awaited.
#[must_use = "nothing happens until the call is awaited"]
#[derive(Clone)]
pub struct Call<'a> {
    pub(super) inner: &'a Arc<Inner>,
    pub(super) name: &'a str,
    pub(super) key: Key<'a>,
    pub(super) cost: u64,
    pub(super) terms: Terms<'a>,
    pub(super) kind: Kind,
}

#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Limit,
    Check,
    Reserve,
    Refund,
    Reset,
    Acquire { within: Duration },
    Admit(Lease),
    Renew(Lease),
    Release(Lease),
}

impl<'a> Call<'a> {
    #[inline]
    pub(super) fn new(inner: &'a Arc<Inner>, name: &'a str, key: Key<'a>, kind: Kind) -> Self {
        Call { inner, name, key, cost: 1, terms: Terms::default(), kind }
    }

    /// How much it takes: 1 unless said otherwise. A cost of 0 is an error; to take nothing, `check`.
    #[inline]
    pub fn cost(mut self, cost: u64) -> Self {
        self.cost = cost;
        self
    }

    /// Another quota for this call only: free and premium under one name. What the key has used is kept, and comes back as
    /// fast as the quota of the last call says: who asks must not choose it.
    #[inline]
    pub fn quota(mut self, quota: &'a Quota) -> Self {
        self.terms.quota = Some(quota);
        self
    }

    /// What to do when the store is broken, for this call only; see [`Limit::on_store_error`](super::Limit::on_store_error) for who
    /// acts on it.
    #[inline]
    pub fn on_store_error(mut self, policy: OnStoreError) -> Self {
        self.terms.on_store_error = Some(policy);
        self
    }

    /// The whole address of who asks, for the deny lists: a key may hold less of it, such as the network of an IPv6
    /// client, or nothing.
    #[inline]
    pub fn address(mut self, address: &'a IpAddr) -> Self {
        self.terms.address = Some(address);
        self
    }

    /// The key of who asks as it was before it was cut or shared with others, for the deny lists.
    #[inline]
    pub fn whole_key(mut self, key: &'a Key<'a>) -> Self {
        self.terms.whole_key = Some(key);
        self
    }

    /// Says that this is about to be asked, by [`now`](Self::now): the store in memory fetches meanwhile what it will look at.
    /// Who has several calls at hand, and does this for all of them first, waits for memory once and not for each of them.
    /// [`Limiter::each`](super::Limiter::each) does so by itself. Nothing is decided, and nothing has to come of it: nothing does
    /// for limits that make keys alike or cut their budget into shards.
    pub fn prefetch(&self) {
        self.inner.limits.with(|limits| {
            if let Ok(named) = limits.get(self.name)
                && named.keeps_keys()
            {
                self.inner.store.dyn_prefetch(&named.scope, &self.key);
            }
        });
    }

    /// The answer without waiting, for code that is not async. None when it has to be waited for: the store does I/O, or
    /// the call is an `acquire`, or anything but a `limit` on a spread limit. Nothing was done then.
    // Everything here is inlined into the caller, and the call itself is taken apart: what is known there, such as the
    // name and the cost, is worked out when it is compiled, and a decision that is only looked at is not copied.
    #[inline(always)]
    pub fn now(&self) -> Option<Result<Decision, Error>> {
        let Call { inner, name, cost, terms, kind, .. } = *self;
        let key = self.key.borrow();
        let Some(limits) = inner.limits.first() else {
            let mut answer = None;
            Call { inner, name, key, cost, terms, kind }.now_replaced(&mut answer);
            return answer;
        };
        // Nobody has closed it, either.
        let unknown = || limits.unknown(name);
        now_under(limits.find(name), unknown, inner, &key, terms, || op_of(cost, kind), |_| {})
    }

    /// The rarer way, which writes its answer to a place of its own: were it to return it, the usual answer would have to
    /// be copied to where that goes.
    #[inline(never)]
    fn now_replaced(&self, answer: &mut Option<Result<Decision, Error>>) {
        let Call { inner, name, key, cost, terms, kind } = self;
        let op = || checked_op(inner, *cost, *kind);
        *answer = inner
            .limits
            .with(|limits| now_under(limits.find(name), || limits.unknown(name), inner, key, *terms, op, |_| {}));
    }

    /// The operation, once nothing is wrong with it; none for an `acquire`.
    pub(super) fn checked_op(&self) -> Result<Option<Op>, Error> {
        checked_op(self.inner, self.cost, self.kind)
    }

    pub(super) fn asked<'b>(&'b self, named: &'b Arc<Named>, op: Op) -> Asked<'b> {
        Asked { named, key: &self.key, terms: self.terms, op }
    }

    /// The limit, which is one of these, and the operation, for a call that is a plain `limit`.
    pub(super) fn as_limit<'l>(&self, limits: &'l Limits) -> Result<(&'l Arc<Named>, Cost), Error> {
        let named = limits.get(self.name)?;
        match self.checked_op()? {
            Some(Op::Limit(cost)) => Ok((named, cost)),
            _ => Err(Error::unsupported(self.name, "all-or-nothing is for `limit` only")),
        }
    }

    /// The limit as it is now.
    pub(super) fn named(&self) -> Result<Arc<Named>, Error> {
        Ok(Arc::clone(self.inner.limits.load().get(self.name)?))
    }

    /// The answer, waited for.
    async fn wait(self) -> Result<Decision, Error> {
        if let Kind::Acquire { within } = self.kind {
            return self.acquire(within).await;
        }
        self.ask(&*self.inner.store).await
    }

    /// The answer of `store`, whatever the limiter's own is.
    pub(crate) async fn ask<D: Decides + ?Sized>(&self, store: &D) -> Result<Decision, Error> {
        let named = self.named()?;
        let Some(op) = self.checked_op()? else {
            return Err(Error::unsupported(self.name, "an `acquire` would keep the transaction open while it waits"));
        };
        self.asked(&named, op).ask(self.inner, store).await
    }
}

/// The answer without waiting, and to `found` the limit that gives it.
// No `Result` of a limit: what comes of a name that is not there must not look as if it could go on to the store, or nothing
// that the compiler knows of the call would count from there on.
#[inline(always)]
pub(super) fn now_under(
    named: Option<&Arc<Named>>,
    unknown: impl FnOnce() -> Error,
    inner: &Arc<Inner>,
    key: &Key<'_>,
    terms: Terms<'_>,
    op: impl FnOnce() -> Result<Option<Op>, Error>,
    found: impl FnOnce(&Named),
) -> Option<Result<Decision, Error>> {
    let Some(named) = named else { return Some(Err(unknown())) };
    found(named);
    match op() {
        Ok(op) => Asked { named, key, terms, op: op? }.now(inner),
        Err(error) => Some(Err(error)),
    }
}

/// The operation; none for an `acquire`.
pub(super) fn checked_op(inner: &Inner, cost: u64, kind: Kind) -> Result<Option<Op>, Error> {
    if inner.is_closed() {
        return Err(Error::Closed);
    }
    op_of(cost, kind)
}

#[inline(always)]
pub(super) fn op_of(cost: u64, kind: Kind) -> Result<Option<Op>, Error> {
    let cost = Cost::new(cost)?;
    Ok(match kind {
        Kind::Limit => Some(Op::Limit(cost)),
        Kind::Check => Some(Op::Check(cost)),
        Kind::Reserve => Some(Op::Reserve(cost)),
        Kind::Refund => Some(Op::Refund(cost)),
        Kind::Reset => Some(Op::Reset),
        Kind::Acquire { .. } => None,
        Kind::Admit(lease) => Some(Op::Admit(lease)),
        Kind::Renew(lease) => Some(Op::Renew(lease)),
        Kind::Release(lease) => Some(Op::Release(lease)),
    })
}

impl<'a> IntoFuture for Call<'a> {
    type Output = Result<Decision, Error>;
    type IntoFuture = CallFuture<'a>;

    #[inline]
    fn into_future(self) -> CallFuture<'a> {
        CallFuture { call: Some(self), waiting: None, answered: false }
    }
}

/// The answer to a [`Call`]. With a store in process it is there at the first poll, and nothing is allocated for it,
/// unless the limit makes keys alike or cuts its budget into shards.
#[must_use = "futures do nothing unless polled"]
pub struct CallFuture<'a> {
    /// What is asked, until it is waited for. It stays when it is answered at once: dropping it there would copy the answer.
    call: Option<Call<'a>>,
    waiting: Option<BoxFuture<'a, Result<Decision, Error>>>,
    answered: bool,
}

impl Future for CallFuture<'_> {
    type Output = Result<Decision, Error>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        assert!(!self.answered, "polled after it was answered");
        if let Some(call) = &self.call
            && let Some(answer) = call.now()
        {
            self.answered = true;
            return Poll::Ready(answer);
        }
        self.poll_waiting(context)
    }
}

impl CallFuture<'_> {
    /// Waits for the answer.
    #[inline(never)]
    fn poll_waiting(&mut self, context: &mut Context<'_>) -> Poll<Result<Decision, Error>> {
        if let Some(call) = self.call.take() {
            self.waiting = Some(Box::pin(call.wait()));
        }
        let waiting = self.waiting.as_mut().expect("it waits by now");
        let answer = ready!(waiting.as_mut().poll(context));
        self.answered = true;
        Poll::Ready(answer)
    }
}
