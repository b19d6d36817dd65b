//! Several limits at once, all or nothing.

use std::borrow::Cow;
use std::sync::Arc;

use tidegate_core::private::{Few, at_once};
use tidegate_core::{All, Cost, Decision, Key, Op, Quota, Request};

use super::call::Call;
use super::decides::Decides;
use super::limits::Named;
use super::look::beside_denied;
use super::route::{Asked, Route};
use super::spread::with_limit;
use super::{Error, Inner, Limiter, ShardBy};

/// One of the calls, on its way to the store.
struct Part<'a> {
    named: &'a Arc<Named>,
    call: &'a Call<'a>,
    cost: Cost,
}

impl Limiter {
    /// Takes from several limits all or nothing: a request that one limit denies burns nothing from the others.
    ///
    /// ```
    /// # use tidegate::{Limiter, Quota, minutes, seconds};
    /// # async fn example(limiter: &Limiter, user: &str, address: &str) -> Result<(), tidegate::Error> {
    /// let all = limiter.all([limiter.limit("user", user), limiter.limit("address", address).cost(2)]).await?;
    /// if !all.allowed() {
    ///     println!("all of them would pass in {:?}", all.retry_after()); // none: never
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// The answer has one decision for each call, in order. When the whole is denied, limits that would have allowed it
    /// report what they have. The same limit and key twice is applied in order. A limit in shadow mode counts but
    /// never holds the others back. A key on a deny list is denied whatever state the store is in.
    ///
    /// It is one call of the store, and one more for each limit that is [spread](ShardBy::Spread), before it, or in
    /// shadow mode, after it. A store that does not answer is waited for once in each of them.
    pub async fn all<'a>(&self, calls: impl IntoIterator<Item = Call<'a>>) -> Result<All, Error> {
        let calls: Few<_> = calls.into_iter().collect();
        // What it works with is large: it is not kept where it is asked from, but gone by then, or on the heap.
        match self.answers_at_once() {
            true => at_once(self.all_of(&calls)),
            false => Box::pin(self.all_of(&calls)).await,
        }
    }

    /// The same, of calls that stay where they are, and all that it works with in the future.
    pub(crate) async fn all_of(&self, calls: &[Call<'_>]) -> Result<All, Error> {
        ask_all_of(&self.inner, calls, &*self.inner.store).await
    }
}

/// Takes all of the calls of one limiter or nothing, from `store`, whatever the limiter's own is.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(crate) async fn ask_all<D: Decides + ?Sized>(calls: &[Call<'_>], store: &D) -> Result<All, Error> {
    match calls.first() {
        Some(call) => ask_all_of(call.inner, calls, store).await,
        None => Ok(All::new(Vec::new())),
    }
}

async fn ask_all_of<D: Decides + ?Sized>(inner: &Arc<Inner>, calls: &[Call<'_>], store: &D) -> Result<All, Error> {
    if inner.is_closed() {
        return Err(Error::Closed);
    }
    // Once: were they replaced meanwhile, some of the calls would be about the old ones and some about the new.
    let limits = inner.limits.load();
    let mut parts = Few::with_capacity(calls.len());
    for call in calls {
        if !Arc::ptr_eq(call.inner, inner) {
            return Err(Error::unsupported(call.name, "the call belongs to another limiter"));
        }
        let (named, cost) = call.as_limit(&limits)?;
        // A mistake in any of them is found before anything is taken.
        call.asked(named, Op::Limit(cost)).route(inner)?;
        parts.push(Part { named, call, cost });
    }
    let enforced = take_all(inner, parts.iter().filter(|part| !part.named.limit.is_shadow()), store).await?;
    // What shadow limits think is asked afterwards: they count what goes through, and look at what does not.
    let passes = enforced.allowed();
    let mut enforced = enforced.decisions().iter();
    let mut decisions = Few::<Decision>::with_capacity(parts.len());
    for part in &parts {
        let decision = if part.named.limit.is_shadow() {
            let op = if passes { Op::Limit(part.cost) } else { Op::Check(part.cost) };
            let asked = part.call.asked(part.named, op);
            // The others were decided already: a broken store behind this one must not hold them back.
            let answer = asked.ask(inner, store).await;
            answer.unwrap_or_else(|_| Decision::admitted_without_store(asked.capacity()))
        } else {
            *enforced.next().expect("one decision for each part that is enforced")
        };
        decisions.push(decision);
    }
    Ok(decisions.iter().copied().collect())
}

async fn take_all<'a, D: Decides + ?Sized>(
    inner: &Inner,
    parts: impl Iterator<Item = &'a Part<'a>>,
    store: &D,
) -> Result<All, Error> {
    let asked: Few<Asked<'_>> = parts.map(|part| part.call.asked(part.named, Op::Limit(part.cost))).collect();
    if asked.is_empty() {
        return Ok(All::new(Vec::new()));
    }
    // Before the store is asked for anything: a denial by a list is sure, whatever becomes of the store.
    let mut routes = Few::with_capacity(asked.len());
    for asked in &asked {
        routes.push(asked.route(inner)?);
    }
    if routes.iter().any(|route| matches!(route, Route::Answer(_))) {
        return Ok(All::new(beside_denied(&asked, &routes, store).await));
    }
    let mut places: Few<(Key<'_>, Cow<'_, Quota>)> = Few::with_capacity(asked.len());
    for (asked, route) in asked.iter().zip(routes.drain(..)) {
        places.push(match route {
            Route::Answer(_) => unreachable!("nobody is on a deny list"),
            Route::One(key, quota) => (key, quota),
            Route::Spread(spread) => {
                let (part, _) = spread.choose(*asked, store).await?;
                (spread.key.with_shard(part), Cow::Owned(spread.parts[part as usize]))
            }
        });
    }
    let placed = asked.iter().zip(&places);
    let requests: Few<Request<'_>> = placed.map(|(asked, (key, quota))| asked.request(key, quota, asked.op)).collect();
    let answered = store.decide_all(&requests).await?;
    let in_order = answered.decisions().iter().zip(&asked).map(|(decision, asked)| {
        let spread = asked.named.limit.shards > 1 && asked.named.limit.shard_by == ShardBy::Spread;
        if spread { with_limit(*decision, asked.capacity()) } else { *decision }
    });
    Ok(in_order.collect())
}
