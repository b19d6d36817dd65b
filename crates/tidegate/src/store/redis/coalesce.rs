//! Decisions that are asked for at the same time share calls.
//!
//! As long as few calls are in flight, a decision is a call of its own, at once and by whoever wants it. Beyond that a task
//! takes along all who wait, as one call, and goes on like that while somebody does. So the busier the server, the more
//! decisions a call is about, and nobody ever waits for a timer; nor for a caller of whom it is not known when it goes on.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use redis::cluster_routing::Slot;
use tidegate_core::{StoreError, StoreErrorKind};

use super::answer::Answer;
use super::ask::Ask;
use super::lanes::{Entered, Job, Lanes};
use super::{Connection, RedisStore};

impl<C: Connection> RedisStore<C> {
    /// Asks, alone or with others. None is found where the key has to be asked about alone.
    pub(super) async fn answer(&self, ask: &Arc<Ask>) -> Result<Option<Answer>, StoreError> {
        let lanes = self.lanes.as_ref().filter(|_| !ask.is_heavy);
        let Some(lanes) = lanes else { return self.alone(ask, None).await.map(Some) };
        let slot = self.slot(ask);
        match lanes.enter(slot, ask) {
            Entered::Flies => {
                let _flight = Flight { lanes, slot };
                self.alone(ask, None).await.map(Some)
            }
            Entered::Waits(reply, runtime) => {
                if let Some(runtime) = runtime {
                    let task = Task { lanes: Arc::clone(lanes), slot, ended: false };
                    runtime.spawn(task.run(self.clone()));
                }
                reply.await.unwrap_or_else(|_| Err(left_alone()))
            }
            Entered::Apart => self.alone(ask, None).await.map(Some),
        }
    }

    /// One call for all of them, and its answer to each. It is given up when all of them have: a client that tries again
    /// for minutes, as a cluster's does, would keep others waiting for nobody.
    async fn call(&self, jobs: Vec<Job>) {
        let (asks, mut waiting): (Vec<_>, Vec<_>) = jobs.into_iter().map(|job| (job.ask, job.reply)).unzip();
        let mut call = pin!(self.shared(&asks));
        let answers = poll_fn(|context| {
            if let Poll::Ready(answers) = call.as_mut().poll(context) {
                return Poll::Ready(Some(answers));
            }
            // Each of them, so that the last one to go is noticed.
            let gone =
                waiting.iter_mut().filter_map(|waits| waits.poll_closed(context).is_ready().then_some(())).count();
            if gone == waiting.len() { Poll::Ready(None) } else { Poll::Pending }
        });
        let replies: Vec<_> = match answers.await {
            None => return,
            Some(Ok(answers)) => answers.into_iter().map(Ok).collect(),
            Some(Err(error)) => asks.iter().map(|_| Err(error.clone())).collect(),
        };
        for (waits, reply) in waiting.into_iter().zip(replies) {
            // Whoever has gone away in the meantime gets no answer.
            let _ = waits.send(reply);
        }
    }

    async fn shared(&self, asks: &[Arc<Ask>]) -> Result<Vec<Option<Answer>>, StoreError> {
        match asks {
            [only] => self.alone(only, None).await.map(|answer| vec![Some(answer)]),
            asks => self.ask_each(&asks.iter().map(|ask| &**ask).collect::<Vec<_>>()).await,
        }
    }
}

/// A call that its own caller makes, however it ends.
struct Flight<'a> {
    lanes: &'a Lanes,
    slot: Option<Slot>,
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        self.lanes.land(self.slot);
    }
}

/// Makes calls for others, one after the other, while somebody waits.
struct Task {
    lanes: Arc<Lanes>,
    slot: Option<Slot>,
    ended: bool,
}

impl Task {
    async fn run<C: Connection>(mut self, store: RedisStore<C>) {
        loop {
            let jobs = self.lanes.take(self.slot);
            if jobs.is_empty() {
                break self.ended = true;
            }
            store.call(jobs).await;
        }
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        if !self.ended {
            self.lanes.abandon(self.slot);
        }
    }
}

fn left_alone() -> StoreError {
    let why = "redis: the runtime in which the call was made with others has ended";
    StoreError::new(StoreErrorKind::Unavailable, why)
}
