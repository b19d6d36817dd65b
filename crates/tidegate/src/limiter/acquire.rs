//! `acquire`: waits until a quota admits, first come, first served.

use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Poll, Waker};
use std::time::Duration;

use tidegate_core::{Cost, Decision, Op, Reason};

use super::Error;
use super::call::{Call, WindowedDecision};
use super::dispatch::Dispatch;
use super::registry::Limits;
use crate::clock::complete_before;

impl Call<'_> {
    /// Retries until the call is allowed, in the order of callers, for at most `within`.
    ///
    /// Only the head of the queue calls the store. So no caller overtakes another, and a wait is one `retry_after` long
    /// instead of a race of all callers. It takes units as a plain `limit` does, so waiting admits no more under any
    /// algorithm.
    pub(super) async fn acquire(&self, within: Duration) -> Result<WindowedDecision, Error> {
        let inner = &self.limiter.inner;
        let cost = Cost::new(self.cost)?;
        let sleeper = inner.sleeper.as_ref().ok_or(Error::NoSleeper)?;
        let deadline = sleeper.now().saturating_add(within);
        let limits = inner.limits.load_full();
        let dispatch = self.attempt(&limits, Op::Limit(cost))?;
        // Waiting cannot help, because the answer stays the same.
        if cost.get() > u64::from(dispatch.capacity()) || dispatch.is_denied() {
            return self.try_once(Op::Limit(cost)).await;
        }
        drop(dispatch);
        let ticket = inner.queues.join(self.queue_name(&limits)?);
        drop(limits);
        // One timer for the whole wait, because a clock that is set back would lengthen any later timer.
        let mut timeout = pin!(sleeper.sleep(within));
        // The first in the queue waits for no other caller, so it is tried even without time left.
        if !ticket.is_first() {
            let in_time = complete_before(timeout.as_mut(), ticket.turn()).await.is_some();
            if !in_time || sleeper.now() > deadline {
                let limits = inner.limits.load_full();
                let dispatch = self.attempt(&limits, Op::Check(cost))?;
                let check = dispatch.decide(&*inner.store).await?;
                let decision = dispatch.finish(deny_late_turn(check));
                return Ok(WindowedDecision { decision, window: dispatch.window() });
            }
        }
        loop {
            let decided = self.try_once(Op::Limit(cost)).await?;
            let Some(wait) = decided.decision.retry_after().filter(|_| !decided.decision.allowed()) else {
                return Ok(decided);
            };
            let left = deadline.since(sleeper.now());
            if left.is_zero() || wait > left {
                return Ok(decided);
            }
            if complete_before(timeout.as_mut(), sleeper.sleep(wait)).await.is_none() {
                return self.try_once(Op::Limit(cost)).await;
            }
        }
    }

    /// Makes one attempt at the current limit. During a wait, the limit may have been replaced or the limiter closed.
    async fn try_once(&self, op: Op) -> Result<WindowedDecision, Error> {
        let inner = &self.limiter.inner;
        let limits = inner.limits.load_full();
        let dispatch = self.attempt(&limits, op)?;
        Ok(WindowedDecision { decision: dispatch.decide(&*inner.store).await?, window: dispatch.window() })
    }

    fn attempt<'b>(&'b self, limits: &'b Limits, op: Op) -> Result<Dispatch<'b>, Error> {
        if self.limiter.inner.is_closed() {
            return Err(Error::Closed);
        }
        Dispatch::new(self, limits.get(self.name)?, op)
    }

    /// Returns the name of the queue: the limit, and the key as the limit normalizes it.
    fn queue_name(&self, limits: &Limits) -> Result<String, Error> {
        let named = limits.get(self.name)?;
        Ok(format!("{}|{}", named.scope.as_str(), named.normalized(&self.key).to_text()))
    }
}

/// Returns the denial of a caller whose turn came too late, even if the quota has units left.
fn deny_late_turn(check: Decision) -> Decision {
    let mut parts = check.into_parts();
    // A permission with a reason is not the quota's. It comes from a failure policy or shadow mode.
    if parts.allowed && parts.reason.is_none() {
        parts.allowed = false;
        parts.reason = Some(Reason::Rate);
        parts.retry_after = Some(0);
    }
    parts.into()
}

/// The queues of callers that wait for the same limit and key. An empty queue is removed.
#[derive(Default)]
pub(super) struct Queues {
    queues: Mutex<HashMap<String, Queue>>,
}

/// Waiting callers in order. The first one is being served.
#[derive(Default)]
struct Queue {
    waiting: VecDeque<(u64, Option<Waker>)>,
    next: u64,
}

impl Queue {
    fn is_first(&self, number: u64) -> bool {
        self.waiting.front().is_some_and(|(first, _)| *first == number)
    }
}

/// A place in a queue, given up when dropped.
struct Ticket {
    queues: Arc<Queues>,
    queue: String,
    number: u64,
}

impl Queues {
    /// Joins the end of a queue.
    fn join(self: &Arc<Self>, queue: String) -> Ticket {
        let mut queues = self.lock();
        let waiters = queues.entry(queue.clone()).or_default();
        let number = waiters.next;
        waiters.next += 1;
        waiters.waiting.push_back((number, None));
        drop(queues);
        Ticket { queues: Arc::clone(self), queue, number }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Queue>> {
        self.queues.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Ticket {
    /// Returns whether this caller is the first.
    fn is_first(&self) -> bool {
        self.queues.lock().get(&self.queue).is_some_and(|queue| queue.is_first(self.number))
    }

    /// Completes when all earlier callers have left.
    async fn turn(&self) {
        poll_fn(|context| {
            let mut queues = self.queues.lock();
            let queue = queues.get_mut(&self.queue).expect("a ticket keeps its queue");
            if queue.is_first(self.number) {
                return Poll::Ready(());
            }
            if let Some((_, waker)) = queue.waiting.iter_mut().find(|(number, _)| *number == self.number) {
                *waker = Some(context.waker().clone());
            }
            Poll::Pending
        })
        .await;
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut queues = self.queues.lock();
        let Some(queue) = queues.get_mut(&self.queue) else { return };
        queue.waiting.retain(|(number, _)| *number != self.number);
        let next = queue.waiting.front_mut().and_then(|(_, waker)| waker.take());
        if queue.waiting.is_empty() {
            queues.remove(&self.queue);
        }
        drop(queues);
        if let Some(waker) = next {
            waker.wake();
        }
    }
}
