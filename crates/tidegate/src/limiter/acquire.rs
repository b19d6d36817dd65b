//! Waiting until a quota admits.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use tidegate_core::{Decision, Op, Reason};

use super::route::Asked;
use super::{Error, Inner};

impl Inner {
    /// Asks until it is allowed, in the order in which callers came, for `within` at most.
    ///
    /// The head of the queue alone asks the store, so nobody overtakes, and a wait is one `retry_after` long and not
    /// a race of everybody who waits. It takes as a plain `limit` does, so no algorithm admits more for being waited
    /// on.
    pub(super) async fn acquire(&self, asked: Asked<'_>, within: Duration) -> Result<Decision, Error> {
        let sleeper = self.sleeper.as_ref().ok_or(Error::NoSleeper)?;
        let deadline = sleeper.now().saturating_add(within);
        let ticket = self.queues.join(format!("{}|{}", asked.named.scope.as_str(), asked.key.to_text()));
        if !first_of(ticket.turn(), sleeper.sleep(within)).await {
            let Op::Limit(cost) = asked.op else { unreachable!("an acquire takes") };
            let look = Asked { op: Op::Check(cost), ..asked }.ask(self).await?;
            return Ok(too_late(look));
        }
        loop {
            let decision = asked.ask(self).await?;
            let Some(wait) = decision.retry_after().filter(|_| !decision.allowed()) else { return Ok(decision) };
            if wait > deadline.since(sleeper.now()) {
                return Ok(decision);
            }
            sleeper.sleep(wait).await;
        }
    }
}

/// The denial of somebody whose turn did not come in time, whatever the quota has left.
fn too_late(look: Decision) -> Decision {
    let mut parts = look.into_parts();
    if parts.allowed {
        parts.allowed = false;
        parts.reason = Some(Reason::Rate);
        parts.retry_after = Some(0);
    }
    parts.into()
}

/// Whether `wanted` ended before `limit` did.
async fn first_of(wanted: impl Future<Output = ()>, limit: impl Future<Output = ()>) -> bool {
    let (mut wanted, mut limit) = (pin!(wanted), pin!(limit));
    poll_fn(|context| {
        if wanted.as_mut().poll(context).is_ready() {
            return Poll::Ready(true);
        }
        limit.as_mut().poll(context).map(|()| false)
    })
    .await
}
