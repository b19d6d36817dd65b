//! Several limits at once, all or nothing.

use std::borrow::Cow;
use std::sync::Arc;

use tidegate_core::{All, Cost, Decision, Key, Op, Quota, Request};

use super::call::Call;
use super::decides::Decides;
use super::limits::Named;
use super::route::{Asked, Route};
use super::spread::with_limit;
use super::{Error, Inner, Limiter, ShardBy};

/// One of the calls, on its way to the store.
struct Part<'a> {
    named: Arc<Named>,
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
    /// if let Some(wait) = all.retry_after() {
    ///     println!("all of them would pass in {wait:?}");
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// The answer has one decision for each call, in order. When the whole is denied, limits that would have allowed it
    /// report what they have. The same limit and key twice is applied in order. A limit in shadow mode counts but
    /// never holds the others back.
    ///
    /// It is one call of the store, and one more for each limit that is [spread](ShardBy::Spread), before it, or in
    /// shadow mode, after it. A store that does not answer is waited for once in each of them.
    pub async fn all<'a>(&self, calls: impl IntoIterator<Item = Call<'a>>) -> Result<All, Error> {
        let calls: Vec<_> = calls.into_iter().collect();
        ask_all_of(&self.inner, &calls, &*self.inner.store).await
    }
}

/// Takes all of the calls or nothing, from `store`.
async fn ask_all_of<D: Decides + ?Sized>(inner: &Arc<Inner>, calls: &[Call<'_>], store: &D) -> Result<All, Error> {
    if inner.is_closed() {
        return Err(Error::Closed);
    }
    let mut parts = Vec::with_capacity(calls.len());
    for call in calls {
        if !Arc::ptr_eq(call.inner, inner) {
            return Err(Error::unsupported(call.name, "the call belongs to another limiter"));
        }
        let (named, cost) = call.as_limit()?;
        // A mistake in any of them is found before anything is taken.
        call.asked(&named, Op::Limit(cost)).route(inner)?;
        parts.push(Part { named, call, cost });
    }
    let enforced = take_all(inner, parts.iter().filter(|part| !part.named.limit.is_shadow()), store).await?;
    // What shadow limits think is asked afterwards: they count what goes through, and look at what does not.
    let passes = enforced.allowed();
    let mut enforced = enforced.into_decisions().into_iter();
    let mut decisions = Vec::with_capacity(parts.len());
    for part in &parts {
        let decision = if part.named.limit.is_shadow() {
            let op = if passes { Op::Limit(part.cost) } else { Op::Check(part.cost) };
            let asked = part.call.asked(&part.named, op);
            // The others were decided already: a broken store behind this one must not hold them back.
            let answer = asked.ask(inner, store).await;
            answer.unwrap_or_else(|_| Decision::admitted_without_store(asked.capacity()))
        } else {
            enforced.next().expect("one decision for each part that is enforced")
        };
        decisions.push(decision);
    }
    Ok(All::new(decisions))
}

async fn take_all<'a, D: Decides + ?Sized>(
    inner: &Inner,
    parts: impl Iterator<Item = &'a Part<'a>>,
    store: &D,
) -> Result<All, Error> {
    let asked: Vec<Asked<'_>> = parts.map(|part| part.call.asked(&part.named, Op::Limit(part.cost))).collect();
    if asked.is_empty() {
        return Ok(All::new(Vec::new()));
    }
    let mut routed: Vec<Result<(Key<'_>, Cow<'_, Quota>), Decision>> = Vec::with_capacity(asked.len());
    for asked in &asked {
        routed.push(match asked.route(inner)? {
            Route::Answer(decision) => Err(decision),
            Route::One(key, quota) => Ok((key, quota)),
            Route::Spread(spread) => {
                let (part, _) = spread.choose(*asked, store).await?;
                Ok((spread.key.with_shard(part), Cow::Owned(spread.parts[part as usize])))
            }
        });
    }
    let denied_by_list = routed.iter().any(Result::is_err);
    let requests: Vec<Request<'_>> = asked
        .iter()
        .zip(&routed)
        .filter_map(|(asked, routed)| Some((asked, routed.as_ref().ok()?)))
        .map(|(asked, (key, quota))| {
            let op = match asked.op {
                // Nothing is taken when somebody is on a deny list; the others say what they have.
                Op::Limit(cost) if denied_by_list => Op::Check(cost),
                op => op,
            };
            asked.request(key, quota, op)
        })
        .collect();
    let answered = if denied_by_list {
        store.decide_each(&requests).await.into_iter().collect::<Result<Vec<_>, _>>()?
    } else {
        store.decide_all(&requests).await?.into_decisions()
    };
    let mut answered = answered.into_iter();
    let in_order = routed.iter().zip(&asked).map(|(routed, asked)| match routed {
        Err(decision) => *decision,
        Ok(_) => {
            let decision = answered.next().expect("one decision for each request");
            let spread = asked.named.limit.shards > 1 && asked.named.limit.shard_by == ShardBy::Spread;
            if spread { with_limit(decision, asked.capacity()) } else { decision }
        }
    });
    Ok(All::new(in_order.collect()))
}
