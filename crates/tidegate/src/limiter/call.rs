//! A call to a limiter, and the future of its answer.

use std::future::{Future, IntoFuture};
use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tidegate_core::{BoxFuture, Cost, Decision, Key, Lease, OnStoreError, Op, Quota};

use super::dispatch::Dispatch;
use super::registry::{Limits, NamedLimit};
use super::{Error, Limiter};
use crate::store::Decider;

/// A call to a limiter. Nothing happens until it is awaited.
#[must_use = "nothing happens until the call is awaited"]
#[derive(Clone)]
pub struct Call<'a> {
    pub(super) limiter: &'a Limiter,
    pub(super) name: &'a str,
    pub(super) key: Key<'a>,
    pub(super) cost: u64,
    pub(super) options: CallOptions<'a>,
    pub(super) kind: CallKind,
}

/// The settings of one call that differ from its limit's, and the client's data for deny lists.
#[derive(Clone, Copy, Default)]
pub(crate) struct CallOptions<'a> {
    pub(crate) quota: Option<&'a Quota>,
    pub(crate) on_store_error: Option<OnStoreError>,
    pub(crate) address: Option<&'a IpAddr>,
    pub(crate) whole_key: Option<&'a Key<'a>>,
    /// Whether the caller admits every request, whatever is decided.
    pub(crate) shadow: bool,
}

/// The operation of a call, whose cost is not checked yet.
#[derive(Clone, Copy)]
pub(crate) enum CallKind {
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

/// A decision, and the window of the limit that made it.
#[derive(Clone, Copy)]
pub(crate) struct WindowedDecision {
    pub(crate) decision: Decision,
    pub(crate) window: Option<Duration>,
}

impl<'a> Call<'a> {
    /// Sets the cost. Defaults to 1. A cost of 0 is an error; to take nothing, use `check`.
    #[inline]
    pub fn cost(mut self, cost: u64) -> Self {
        self.cost = cost;
        self
    }

    /// Decides this call by another quota, such as for free and premium users under one name. The key keeps its usage,
    /// which is replenished at the rate of the last call's quota. So a client must never choose the quota.
    #[inline]
    pub fn with_quota(mut self, quota: &'a Quota) -> Self {
        self.options.quota = Some(quota);
        self
    }

    /// Sets the policy for a broken store, for this call only; see
    /// [`Limit::on_store_error`](super::Limit::on_store_error).
    #[inline]
    pub fn on_store_error(mut self, policy: OnStoreError) -> Self {
        self.options.on_store_error = Some(policy);
        self
    }

    /// Passes the client's whole address to the deny lists. A key may have only a part of it, such as the network of an
    /// IPv6 client, or none.
    #[inline]
    pub fn address(mut self, address: &'a IpAddr) -> Self {
        self.options.address = Some(address);
        self
    }

    /// Passes the client's original key to the deny lists, before it was shortened or shared with others.
    #[inline]
    pub fn whole_key(mut self, key: &'a Key<'a>) -> Self {
        self.options.whole_key = Some(key);
        self
    }

    pub(crate) fn with_options(mut self, options: CallOptions<'a>) -> Self {
        self.options = options;
        self
    }

    /// Announces that [`try_now`](Self::try_now) follows, so that the memory store prefetches memory for it. A caller
    /// with several calls announces all of them first, and waits for memory once. [`Limiter::batch`] does so by itself.
    /// Nothing is decided. Limits that normalize keys or have shards ignore it.
    pub fn prefetch(&self) {
        let limits = self.limiter.inner.limits.load();
        if let Ok(named) = limits.get(self.name)
            && named.limit.normalize.is_none()
            && named.limit.shards == 1
        {
            self.limiter.inner.store.dyn_prefetch(&named.scope, &self.key);
        }
    }

    /// Decides without waiting, for code that is not async. A store in process decides every call except an `acquire`.
    /// A call that has to wait is [`Error::WouldBlock`], and nothing was done then.
    ///
    /// ```
    /// # use tidegate::{Limiter, Quota, minutes};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let limiter = Limiter::builder().limit("login", Quota::fixed_window(5, minutes(1))?).build()?;
    /// assert!(limiter.limit("login", "alice").try_now()?.allowed());
    /// # Ok(()) }
    /// ```
    #[inline]
    pub fn try_now(&self) -> Result<Decision, Error> {
        match self.try_decide() {
            Some(decided) => decided.map(|decided| decided.decision),
            None => Err(Error::WouldBlock),
        }
    }

    /// Decides without waiting, with the window of the limit. Returns `None` if the call must wait. Nothing was done
    /// then.
    #[inline(always)] // record 0032 has the measurement
    pub(crate) fn try_decide(&self) -> Option<Result<WindowedDecision, Error>> {
        let inner = &self.limiter.inner;
        let limits = inner.limits.load();
        let dispatch = match self.dispatch(&limits) {
            Ok(dispatch) => dispatch?,
            Err(error) => return Some(Err(error)),
        };
        let decision = match dispatch.is_denied() {
            true => Ok(dispatch.denial()),
            false => inner.store.dyn_try_apply(&dispatch.request())?,
        };
        let decision = decision.map(|decision| dispatch.finish(decision)).map_err(Error::Store);
        dispatch.count(self, decision.as_ref());
        Some(decision.map(|decision| WindowedDecision { decision, window: dispatch.window() }))
    }

    /// Decides the call, with the window of the limit.
    pub(crate) async fn decide(&self) -> Result<WindowedDecision, Error> {
        match self.kind {
            CallKind::Acquire { within } => {
                let decided = self.acquire(within).await;
                self.count_acquired(&decided);
                decided
            }
            _ => self.decide_on(&*self.limiter.inner.store).await,
        }
    }

    /// Decides the call by `decider` in place of the limiter's store.
    pub(crate) async fn decide_on<D: Decider + ?Sized>(&self, decider: &D) -> Result<WindowedDecision, Error> {
        let limits = self.limiter.inner.limits.load_full();
        let Some(dispatch) = self.dispatch(&limits)? else {
            return Err(Error::unsupported(self.name, "an `acquire` would keep the transaction open while it waits"));
        };
        let decision = dispatch.decide(decider).await;
        dispatch.count(self, decision.as_ref());
        Ok(WindowedDecision { decision: decision?, window: dispatch.window() })
    }

    /// Counts the answer to this call as `tidegate_decisions_total`.
    ///
    /// A check counts when it refuses: the request ends there, and would have been charged by its outcome. A request that a
    /// check has let pass counts when it takes.
    #[inline]
    pub(super) fn count(&self, limit: &NamedLimit, answer: Result<&Decision, &Error>) {
        let decision = match answer {
            Ok(decision) if self.options.shadow => Some(decision.shadowed()),
            Ok(decision) => Some(*decision),
            Err(Error::Store(_)) => None,
            // A mistake in the program is no decision.
            Err(_) => return,
        };
        let is_counted = match self.kind {
            CallKind::Limit | CallKind::Reserve | CallKind::Admit(_) | CallKind::Acquire { .. } => true,
            CallKind::Check => !decision.is_some_and(|decision| decision.allowed()),
            CallKind::Refund | CallKind::Reset | CallKind::Renew(_) | CallKind::Release(_) => false,
        };
        if is_counted && self.limiter.inner.counts_decisions {
            limit.counters.count(limit.name(), decision.as_ref());
        }
    }

    /// Counts the answer to an `acquire` once, however often the store was asked for it.
    fn count_acquired(&self, decided: &Result<WindowedDecision, Error>) {
        if let Ok(limit) = self.limiter.inner.limits.load().get(self.name) {
            self.count(limit, decided.as_ref().map(|decided| &decided.decision));
        }
    }

    /// Returns the call on its way to the store, or `None` for an `acquire`.
    #[inline(always)] // record 0032 has the measurement
    pub(super) fn dispatch<'b>(&'b self, limits: &'b Limits) -> Result<Option<Dispatch<'b>>, Error> {
        let limit = limits.get(self.name)?;
        match self.checked_op()? {
            Some(op) => Dispatch::new(self, limit, op).map(Some),
            None => Ok(None),
        }
    }

    /// Returns the operation with its cost checked, or `None` for an `acquire`.
    #[inline(always)] // record 0032 has the measurement
    fn checked_op(&self) -> Result<Option<Op>, Error> {
        if self.limiter.inner.is_closed() {
            return Err(Error::Closed);
        }
        let cost = Cost::new(self.cost)?;
        Ok(match self.kind {
            CallKind::Limit => Some(Op::Limit(cost)),
            CallKind::Check => Some(Op::Check(cost)),
            CallKind::Reserve => Some(Op::Reserve(cost)),
            CallKind::Refund => Some(Op::Refund(cost)),
            CallKind::Reset => Some(Op::Reset),
            CallKind::Acquire { .. } => None,
            CallKind::Admit(lease) => Some(Op::Admit(lease)),
            CallKind::Renew(lease) => Some(Op::Renew(lease)),
            CallKind::Release(lease) => Some(Op::Release(lease)),
        })
    }
}

impl<'a> IntoFuture for Call<'a> {
    type Output = Result<Decision, Error>;
    type IntoFuture = CallFuture<'a>;

    #[inline]
    fn into_future(self) -> CallFuture<'a> {
        CallFuture { state: State::Start(self) }
    }
}

/// The future of a [`Call`]'s decision. With a store in process it is ready at the first poll. It allocates only if the
/// limit normalizes keys or has shards.
#[must_use = "futures do nothing unless polled"]
pub struct CallFuture<'a> {
    state: State<'a>,
}

#[allow(clippy::large_enum_variant, reason = "boxing the call would allocate for every decision")]
enum State<'a> {
    Start(Call<'a>),
    Waiting(BoxFuture<'a, Result<Decision, Error>>),
    Done,
}

impl Future for CallFuture<'_> {
    type Output = Result<Decision, Error>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let State::Start(call) = &self.state {
            if let Some(decided) = call.try_decide() {
                self.state = State::Done;
                return Poll::Ready(decided.map(|decided| decided.decision));
            }
            self.wait();
        }
        let State::Waiting(future) = &mut self.state else { panic!("polled after completion") };
        let answer = ready!(future.as_mut().poll(context));
        self.state = State::Done;
        Poll::Ready(answer)
    }
}

impl CallFuture<'_> {
    /// Starts to wait for the answer.
    #[cold]
    fn wait(&mut self) {
        if let State::Start(call) = std::mem::replace(&mut self.state, State::Done) {
            let decision = async move { call.decide().await.map(|decided| decided.decision) };
            self.state = State::Waiting(Box::pin(decision));
        }
    }
}
