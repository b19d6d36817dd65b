//! The batcher: under load, concurrent decisions share script calls.
//!
//! As long as few calls are in flight, the caller of a decision makes a call of its own, at once. Beyond that,
//! decisions queue: a worker runs up to [`MAX_BATCH_LEN`] of them in one call, and goes on until the queue is empty. So
//! the busier the server, the more decisions a call carries. No decision waits for a timer, nor for another caller to be
//! polled.

use std::collections::{HashMap, VecDeque};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use tidegate_core::{StoreError, StoreErrorKind};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::batch::MAX_BATCH_LEN;
use super::operation::StateOperation;
use super::reply::KeyReply;
use super::slot::Slot;
use super::{Connection, RedisStore};

/// The most workers per slot, each with one call in flight.
const MAX_WORKERS: usize = 2;

/// The shortest queue from which canceled waiters are removed.
const MIN_PRUNE_LEN: usize = 1_024;

/// The reply to a waiter; none when its operation needs a call of its own.
type WaiterReply = Result<Option<KeyReply>, StoreError>;

/// An operation that waits for a worker.
struct Waiter {
    operation: Arc<StateOperation>,
    sender: oneshot::Sender<WaiterReply>,
}

/// The way an operation is run.
enum Dispatch {
    /// The caller runs it at once, and the call counts until it is [finished](Batcher::finish_direct).
    Direct,
    /// A worker runs it. Where a runtime is named, the caller has to start that worker there.
    Queued(oneshot::Receiver<WaiterReply>, Option<Handle>),
    /// The caller runs it at once, and the call does not count: there is no runtime for a worker.
    Uncounted,
}

/// The calls in flight and the waiters, by slot, because a call covers one slot. The lock is held only while waiters
/// are moved.
pub(super) struct Batcher {
    /// The most callers per slot that make calls of their own at a time.
    max_direct_calls: usize,
    /// The runtime in which the store was made and its connection works. Workers run there, whichever runtime calls.
    runtime: Option<Handle>,
    queues: Mutex<HashMap<Option<Slot>, SlotQueue>>,
}

/// The calls in flight and the waiters of one slot.
#[derive(Default)]
struct SlotQueue {
    direct_calls: usize,
    workers: usize,
    waiters: VecDeque<Waiter>,
    /// The length at which canceled waiters are removed next.
    prune_len: usize,
}

impl Batcher {
    pub(super) fn new(max_direct_calls: usize) -> Self {
        Batcher { max_direct_calls, runtime: Handle::try_current().ok(), queues: Mutex::default() }
    }

    fn dispatch(&self, slot: Option<Slot>, operation: &Arc<StateOperation>) -> Dispatch {
        let mut queues = self.lock();
        let queue = queues.entry(slot).or_default();
        // While workers run, later callers do not overtake the waiters.
        if queue.workers == 0 && queue.direct_calls < self.max_direct_calls {
            queue.direct_calls += 1;
            return Dispatch::Direct;
        }
        let mut runtime = None;
        if queue.workers < MAX_WORKERS {
            runtime = self.runtime.clone().or_else(|| Handle::try_current().ok());
            queue.workers += usize::from(runtime.is_some());
            if queue.workers == 0 {
                return Dispatch::Uncounted;
            }
        }
        let (sender, receiver) = oneshot::channel();
        queue.push(Waiter { operation: Arc::clone(operation), sender });
        Dispatch::Queued(receiver, runtime)
    }

    /// Counts a direct call as ended.
    fn finish_direct(&self, slot: Option<Slot>) {
        self.update(slot, |queue| queue.direct_calls -= 1);
    }

    /// The waiters that a worker serves next. When there are none, the worker ends.
    fn next_batch(&self, slot: Option<Slot>) -> Vec<Waiter> {
        self.update(slot, |queue| {
            let batch = queue.next_batch();
            queue.workers -= usize::from(batch.is_empty());
            batch
        })
    }

    /// Removes a worker that its runtime has ended. If it was the last one, its waiters fail: no other would serve
    /// them.
    fn remove_aborted_worker(&self, slot: Option<Slot>) {
        let abandoned = self.update(slot, |queue| {
            queue.workers -= 1;
            if queue.workers == 0 { std::mem::take(&mut queue.waiters) } else { VecDeque::new() }
        });
        // Outside of the lock: a waiter that is woken may call again at once.
        drop(abandoned);
    }

    /// Updates a queue that has calls in flight, and removes it when it has none left.
    fn update<T>(&self, slot: Option<Slot>, update: impl FnOnce(&mut SlotQueue) -> T) -> T {
        let mut queues = self.lock();
        let queue = queues.entry(slot).or_default();
        let updated = update(queue);
        // An idle slot costs nothing.
        if queue.direct_calls == 0 && queue.workers == 0 {
            queues.remove(&slot);
        }
        updated
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Option<Slot>, SlotQueue>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SlotQueue {
    fn push(&mut self, waiter: Waiter) {
        // While a server does not answer, callers give up and others come: canceled waiters must not pile up.
        if self.waiters.len() >= self.prune_len.max(MIN_PRUNE_LEN) {
            self.waiters.retain(|waiter| !waiter.sender.is_closed());
            self.prune_len = 2 * self.waiters.len();
        }
        self.waiters.push_back(waiter);
    }

    /// Takes the waiters of the next call, in order: all with the same time, and without canceled ones.
    fn next_batch(&mut self) -> Vec<Waiter> {
        let mut batch: Vec<Waiter> = Vec::with_capacity(self.waiters.len().min(MAX_BATCH_LEN));
        while batch.len() < MAX_BATCH_LEN
            && let Some(waiter) = self
                .waiters
                .pop_front_if(|waiter| batch.first().is_none_or(|first| first.operation.at == waiter.operation.at))
        {
            if !waiter.sender.is_closed() {
                batch.push(waiter);
            }
        }
        batch
    }
}

impl<C: Connection> RedisStore<C> {
    /// Runs an operation, by itself or in a batch. It has no reply where it needs a call of its own.
    pub(super) async fn run_coalesced(&self, operation: &Arc<StateOperation>) -> Result<Option<KeyReply>, StoreError> {
        let batcher = self.batcher.as_ref().filter(|_| !operation.is_heavy);
        let Some(batcher) = batcher else { return self.run_single(operation, None).await.map(Some) };
        let slot = self.slot(operation);
        match batcher.dispatch(slot, operation) {
            Dispatch::Direct => {
                let _guard = DirectCallGuard { batcher, slot };
                self.run_single(operation, None).await.map(Some)
            }
            Dispatch::Queued(receiver, runtime) => {
                if let Some(runtime) = runtime {
                    let worker = Worker { batcher: Arc::clone(batcher), slot, is_finished: false };
                    runtime.spawn(worker.run(self.clone()));
                }
                receiver.await.unwrap_or_else(|_| Err(runtime_ended()))
            }
            Dispatch::Uncounted => self.run_single(operation, None).await.map(Some),
        }
    }

    /// Makes one call for all of these waiters, and sends each its reply. The call is canceled when all waiters are:
    /// other waiters would be kept waiting for a call that nothing needs.
    async fn serve(&self, waiters: Vec<Waiter>) {
        let (operations, mut senders): (Vec<_>, Vec<_>) =
            waiters.into_iter().map(|waiter| (waiter.operation, waiter.sender)).unzip();
        let mut call = pin!(self.run_operations(&operations));
        let replies = poll_fn(|context| {
            if let Poll::Ready(replies) = call.as_mut().poll(context) {
                return Poll::Ready(Some(replies));
            }
            // Polls every sender, so that the last cancellation is noticed.
            let canceled =
                senders.iter_mut().filter_map(|sender| sender.poll_closed(context).is_ready().then_some(())).count();
            if canceled == senders.len() { Poll::Ready(None) } else { Poll::Pending }
        });
        let replies: Vec<_> = match replies.await {
            None => return,
            Some(Ok(replies)) => replies.into_iter().map(Ok).collect(),
            Some(Err(error)) => operations.iter().map(|_| Err(error.clone())).collect(),
        };
        for (sender, reply) in senders.into_iter().zip(replies) {
            // A waiter that was canceled in the meantime gets no reply.
            let _ = sender.send(reply);
        }
    }

    async fn run_operations(&self, operations: &[Arc<StateOperation>]) -> Result<Vec<Option<KeyReply>>, StoreError> {
        match operations {
            [only] => self.run_single(only, None).await.map(|reply| vec![Some(reply)]),
            operations => self.run_batch(&operations.iter().map(|operation| &**operation).collect::<Vec<_>>()).await,
        }
    }
}

/// Counts a direct call as ended when it is dropped.
struct DirectCallGuard<'a> {
    batcher: &'a Batcher,
    slot: Option<Slot>,
}

impl Drop for DirectCallGuard<'_> {
    fn drop(&mut self) {
        self.batcher.finish_direct(self.slot);
    }
}

/// A task that makes calls for the waiters of one slot, one after the other, until there are none.
struct Worker {
    batcher: Arc<Batcher>,
    slot: Option<Slot>,
    is_finished: bool,
}

impl Worker {
    async fn run<C: Connection>(mut self, store: RedisStore<C>) {
        loop {
            let batch = self.batcher.next_batch(self.slot);
            if batch.is_empty() {
                break self.is_finished = true;
            }
            store.serve(batch).await;
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if !self.is_finished {
            self.batcher.remove_aborted_worker(self.slot);
        }
    }
}

fn runtime_ended() -> StoreError {
    let why = "redis: the runtime in which the call was made with others has ended";
    StoreError::new(StoreErrorKind::Unavailable, why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::redis::script;

    #[test]
    fn canceled_waiters_are_not_kept() {
        let mut queue = SlotQueue::default();
        let mut push = |name: String| {
            let (quota, numbers) = (Vec::new(), Vec::new());
            let operation = StateOperation { name, script: &script::READ, quota, numbers, at: None, is_heavy: false };
            let (sender, receiver) = oneshot::channel();
            queue.push(Waiter { operation: Arc::new(operation), sender });
            receiver
        };
        let mut receivers = Vec::new();
        for number in 0..50_000 {
            let receiver = push(number.to_string());
            if number % 1_000 == 0 {
                receivers.push(receiver);
            }
        }
        assert!(queue.waiters.len() <= MIN_PRUNE_LEN + 1, "{}", queue.waiters.len());
        let names: Vec<_> = queue.next_batch().into_iter().map(|waiter| waiter.operation.name.clone()).collect();
        assert_eq!(names, (0..50).map(|number| (number * 1_000).to_string()).collect::<Vec<_>>());
    }
}
