//! Waiting until a quota admits.

use std::pin::pin;
use std::time::Duration;

use tidegate_core::{Cost, Decision, Op, Reason};

use super::Error;
use super::call::Call;
use super::route::Route;
use crate::clock::before;

impl Call<'_> {
    /// Asks until it is allowed, in the order in which callers came, for `within` at most.
    ///
    /// The head of the queue alone asks the store, so nobody overtakes, and a wait is one `retry_after` long and not
    /// a race of everybody who waits. It takes as a plain `limit` does, so no algorithm admits more for being waited
    /// on.
    pub(super) async fn acquire(&self, within: Duration) -> Result<Decision, Error> {
        let cost = Cost::new(self.cost)?;
        let sleeper = self.inner.sleeper.as_ref().ok_or(Error::NoSleeper)?;
        let deadline = sleeper.now().saturating_add(within);
        if self.waiting_is_useless(cost)? {
            return self.try_once(Op::Limit(cost)).await;
        }
        let ticket = self.inner.queues.join(self.queue()?);
        // One for all of it: a clock that is set back would make any later one longer.
        let mut over = pin!(sleeper.sleep(within));
        // Whoever is the first has waited for nobody, however little time there is.
        if !ticket.is_first() {
            let in_time = before(over.as_mut(), ticket.turn()).await.is_some();
            if !in_time || sleeper.now() > deadline {
                let look = self.try_once(Op::Check(cost)).await?;
                let named = self.named()?;
                return Ok(self.asked(&named, Op::Check(cost)).finish(too_late(look)));
            }
        }
        loop {
            let decision = self.try_once(Op::Limit(cost)).await?;
            let Some(wait) = decision.retry_after().filter(|_| !decision.allowed()) else { return Ok(decision) };
            let left = deadline.since(sleeper.now());
            if left.is_zero() || wait > left {
                return Ok(decision);
            }
            if before(over.as_mut(), sleeper.sleep(wait)).await.is_none() {
                return self.try_once(Op::Limit(cost)).await;
            }
        }
    }

    /// One question, to the limit as it is now: it may have been replaced, and the limiter closed, during a wait.
    async fn try_once(&self, op: Op) -> Result<Decision, Error> {
        if self.inner.is_closed() {
            return Err(Error::Closed);
        }
        let named = self.named()?;
        self.asked(&named, op).ask(self.inner, &*self.inner.store).await
    }

    /// Whether the answer is known to be a denial however long one waits: then nobody has to stand in line for it.
    fn waiting_is_useless(&self, cost: Cost) -> Result<bool, Error> {
        let named = self.named()?;
        let asked = self.asked(&named, Op::Limit(cost));
        Ok(cost.get() > u64::from(asked.capacity()) || matches!(asked.route(self.inner)?, Route::Answer(_)))
    }

    /// Which queue to stand in: that of the limit and the key, as it is counted.
    fn queue(&self) -> Result<String, Error> {
        let named = self.named()?;
        let key = named.limit.normalize.map_or_else(|| self.key.borrow(), |normalize| normalize.apply(&self.key));
        Ok(format!("{}|{}", named.scope.as_str(), key.to_text()))
    }
}

/// The denial of somebody whose turn did not come in time, whatever the quota has left.
fn too_late(look: Decision) -> Decision {
    let mut parts = look.into_parts();
    // Allowed for a reason is not the quota's yes: a broken store's policy, or shadow mode.
    if parts.allowed && parts.reason.is_none() {
        parts.allowed = false;
        parts.reason = Some(Reason::Rate);
        parts.retry_after = Some(0);
    }
    parts.into()
}
