//! Several calls at once: all or nothing, or each on its own.

use tidegate_core::private::{InlineVec, poll_once};
use tidegate_core::{Cost, Decision, JointDecision, Op, Request, Store};

use super::call::Call;
use super::dispatch::Dispatch;
use super::registry::Limits;
use super::{Error, Limiter};
use crate::store::Decider;

impl Limiter {
    /// Takes from several limits all or nothing: a request that one limit denies consumes nothing of the others.
    ///
    /// ```
    /// # use tidegate::{Limiter, Quota, minutes, seconds};
    /// # async fn example(limiter: &Limiter, user: &str, address: &str) -> Result<(), tidegate::Error> {
    /// let all = limiter.limit_all([limiter.limit("user", user), limiter.limit("address", address).cost(2)]).await?;
    /// if !all.allowed() {
    ///     println!("all of them would pass in {:?}", all.retry_after()); // none: never
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// The answer has one decision for each call, in order. When one call is denied, limits that would have allowed it
    /// report their current quota. A repeated limit and key is applied in order. A limit in shadow mode counts but
    /// never denies the other calls. A key on a deny list is denied even when the store is broken.
    ///
    /// It is one call of the store, and one more afterwards for each limit in shadow mode. A store that does not answer
    /// can time out once in each of them.
    pub async fn limit_all<'a>(&self, calls: impl IntoIterator<Item = Call<'a>>) -> Result<JointDecision, Error> {
        let calls: InlineVec<_> = calls.into_iter().collect();
        // The future is large: it is polled in place if the store is immediate, and boxed otherwise.
        match self.is_immediate() {
            true => poll_once(self.limit_all_borrowed(&calls)),
            false => Box::pin(self.limit_all_borrowed(&calls)).await,
        }
    }

    /// [`Limiter::limit_all`] of borrowed calls, with a large future.
    pub(crate) async fn limit_all_borrowed(&self, calls: &[Call<'_>]) -> Result<JointDecision, Error> {
        self.limit_all_on(calls, &*self.inner.store).await
    }

    async fn limit_all_on<D: Decider + ?Sized>(&self, calls: &[Call<'_>], decider: &D) -> Result<JointDecision, Error> {
        if self.inner.is_closed() {
            return Err(Error::Closed);
        }
        // Loaded once, so that all calls use the same limits during a replacement.
        let limits = self.inner.limits.load_full();
        let mut dispatches: InlineVec<Dispatch<'_>> = InlineVec::with_capacity(calls.len());
        // A mistake in any call is found before units are taken.
        for call in calls {
            dispatches.push(self.dispatch(call, &limits)?.ok_or_else(|| only_limit_error(call))?);
        }
        if let Some(index) = dispatches.iter().position(|dispatch| !matches!(dispatch.op, Op::Limit(_))) {
            return Err(only_limit_error(&calls[index]));
        }
        let enforced: InlineVec<&Dispatch<'_>> = dispatches.iter().filter(|dispatch| !dispatch.is_shadow()).collect();
        let enforced = limit_enforced(&enforced, decider).await.inspect_err(|error| {
            calls.iter().zip(&dispatches).for_each(|(call, dispatch)| dispatch.count(call, Err(error)));
        })?;
        // Shadow limits come afterwards: they count a request that passes, and only look at one that does not.
        let passes = enforced.allowed();
        let mut enforced = enforced.decisions().iter();
        let mut decisions = InlineVec::<Decision>::with_capacity(dispatches.len());
        for dispatch in &dispatches {
            decisions.push(match dispatch.is_shadow() {
                true => shadow_decision(dispatch, passes, decider).await,
                false => *enforced.next().expect("one decision for each enforced limit"),
            });
        }
        // A request that is denied as a whole takes nothing of the limits that would have allowed it.
        let decided = calls.iter().zip(&dispatches).zip(&decisions);
        let decisive = decided.filter(|(_, decision)| passes || !decision.allowed());
        decisive.for_each(|((call, dispatch), decision)| dispatch.count(call, Ok(decision)));
        Ok(decisions.into_iter().collect())
    }

    /// Makes several calls independently and in order, as if each were awaited before the next, with as few store calls
    /// as possible.
    ///
    /// ```
    /// # use tidegate::{Limiter, Quota, seconds};
    /// # async fn example(limiter: &Limiter) {
    /// for answer in limiter.batch([limiter.limit("api", "ann"), limiter.check("api", "bob")]).await {
    ///     println!("{answer:?}");
    /// }
    /// # }
    /// ```
    ///
    /// A failed call does not affect the others. An `acquire` is rejected, because the later calls would have to wait.
    pub async fn batch<'a>(&self, calls: impl IntoIterator<Item = Call<'a>>) -> Vec<Result<Decision, Error>> {
        let calls: Vec<_> = calls.into_iter().collect();
        // Once, so that every call meets the same limits.
        let limits = self.inner.limits.load_full();
        let dispatches: Vec<Result<Dispatch<'_>, Error>> = calls
            .iter()
            .map(|call| {
                let why = "an `acquire` would keep the calls behind it waiting";
                self.dispatch(call, &limits)?.ok_or_else(|| Error::unsupported(call.name, why))
            })
            .collect();
        let undenied = dispatches.iter().flatten().filter(|dispatch| !dispatch.is_denied());
        let requests: Vec<Request<'_>> = undenied.map(Dispatch::request).collect();
        let mut decided = match requests.is_empty() {
            true => Vec::new(),
            false => self.inner.store.apply_each(&requests).await,
        }
        .into_iter();
        let answers = calls.iter().zip(&dispatches).map(|(call, dispatch)| {
            let dispatch = dispatch.as_ref().map_err(Error::clone)?;
            let answer = match dispatch.is_denied() {
                true => Ok(dispatch.denial()),
                false => decided.next().expect("one answer for each request").map_err(Error::Store),
            };
            let answer = answer.map(|decision| dispatch.finish(decision));
            dispatch.count(call, answer.as_ref());
            answer
        });
        answers.collect()
    }

    /// Returns a call of this limiter on its way to the store, or `None` for an `acquire`.
    fn dispatch<'c>(&self, call: &'c Call<'_>, limits: &'c Limits) -> Result<Option<Dispatch<'c>>, Error> {
        if !std::sync::Arc::ptr_eq(&call.limiter.inner, &self.inner) {
            return Err(Error::unsupported(call.name, "the call belongs to another limiter"));
        }
        call.dispatch(limits)
    }
}

/// Takes from all limits of calls of one limiter or from none, decided by `decider` in place of the limiter's store.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(crate) async fn limit_all_on<D: Decider + ?Sized>(calls: &[Call<'_>], decider: &D) -> Result<JointDecision, Error> {
    match calls.first() {
        Some(call) => call.limiter.limit_all_on(calls, decider).await,
        None => Ok(JointDecision::new(Vec::new())),
    }
}

fn only_limit_error(call: &Call<'_>) -> Error {
    Error::unsupported(call.name, "all-or-nothing is for `limit` only")
}

async fn limit_enforced<D: Decider + ?Sized>(
    dispatches: &[&Dispatch<'_>],
    decider: &D,
) -> Result<JointDecision, Error> {
    if dispatches.is_empty() {
        return Ok(JointDecision::new(Vec::new()));
    }
    // Before the store is called, because a denial by a list is certain even when the store is broken.
    if dispatches.iter().any(|dispatch| dispatch.is_denied()) {
        return Ok(check_all_but_denied(dispatches, decider).await);
    }
    let requests: InlineVec<Request<'_>> = dispatches.iter().map(|dispatch| dispatch.request()).collect();
    Ok(decider.decide_all(&requests).await?)
}

/// Returns the decisions of several limits when a list denies at least one. Nothing is taken, and the others report
/// their current quota. A failed check is no error, because the request is denied anyway.
async fn check_all_but_denied<D: Decider + ?Sized>(dispatches: &[&Dispatch<'_>], decider: &D) -> JointDecision {
    let undenied = dispatches.iter().filter(|dispatch| !dispatch.is_denied());
    let requests: Vec<Request<'_>> =
        undenied.map(|dispatch| dispatch.request_for(Op::Check(limit_cost(dispatch)))).collect();
    let mut checks = match requests.is_empty() {
        true => Vec::new(),
        false => decider.decide_each(&requests).await,
    }
    .into_iter();
    let in_order = dispatches.iter().map(|dispatch| match dispatch.is_denied() {
        true => dispatch.denial(),
        false => {
            let check = checks.next().expect("one answer for each request");
            check.unwrap_or_else(|_| Decision::admitted_without_store(dispatch.capacity()))
        }
    });
    in_order.collect()
}

/// Returns the decision of a limit in shadow mode. Its broken store must not deny the other limits, which have decided.
async fn shadow_decision<D: Decider + ?Sized>(dispatch: &Dispatch<'_>, passes: bool, decider: &D) -> Decision {
    if dispatch.is_denied() {
        return dispatch.finish(dispatch.denial());
    }
    let op = if passes { dispatch.op } else { Op::Check(limit_cost(dispatch)) };
    match decider.decide(&dispatch.request_for(op)).await {
        Ok(decision) => dispatch.finish(decision),
        Err(_) => Decision::admitted_without_store(dispatch.capacity()),
    }
}

fn limit_cost(dispatch: &Dispatch<'_>) -> Cost {
    let Op::Limit(cost) = dispatch.op else { unreachable!("only a `limit` is taken all or nothing") };
    cost
}
