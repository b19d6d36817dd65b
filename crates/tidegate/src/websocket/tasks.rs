//! Running handlers of one connection: events in order, RPCs concurrently.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use tidegate_core::BoxFuture;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{sleep, timeout};

use super::{ConnectionData, Context, ErrorCode, HandlerResponse, MessageError, Next, Router, lock};
use crate::concurrency::{Completion, Concurrency, Permit, Rejected};

/// Events that may wait for the running one before reading stops.
const MAX_QUEUED_EVENTS: usize = 32;

/// Running and queued handlers of one connection.
pub(super) struct HandlerTasks {
    events: mpsc::Sender<BoxFuture<'static, ()>>,
    worker: JoinHandle<()>,
    rpcs: JoinSet<()>,
}

impl HandlerTasks {
    pub(super) fn new() -> Self {
        let (events, mut waiting) = mpsc::channel::<BoxFuture<'static, ()>>(MAX_QUEUED_EVENTS);
        let worker = tokio::spawn(async move {
            while let Some(event) = waiting.recv().await {
                event.await;
            }
        });
        HandlerTasks { events, worker, rpcs: JoinSet::new() }
    }

    /// Queues an event after those before it.
    pub(super) async fn queue_event<D: ConnectionData>(&self, router: &Router<D>, context: Context<D>, next: Next<D>) {
        let router = router.clone();
        let event = async move {
            // So that it can send.
            context.queue().wait_for_room().await;
            if let Err(error) = run_handler(&router, &context, next).await {
                context.connection().send_error(None, &error);
            }
        };
        // Fails only at the end of the runtime: the worker lives as long as events come.
        let _ = self.events.send(Box::pin(event)).await;
    }

    /// Runs an RPC beside the others.
    pub(super) fn spawn_rpc<D: ConnectionData>(
        &mut self,
        router: &Router<D>,
        context: Context<D>,
        next: Next<D>,
        mut slot: RpcSlot,
        within: Duration,
    ) {
        // Finished tasks are released.
        while self.rpcs.try_join_next().is_some() {}
        let router = router.clone();
        self.rpcs.spawn(async move {
            let Some(call) = context.rpc.clone() else { return };
            let done = tokio::select! {
                biased;
                error = slot.aborted() => Err(error),
                () = sleep(within) => Err(MessageError::new(ErrorCode::DeadlineExceeded, "The call took too long")),
                done = run_handler(&router, &context, next) => done,
            };
            call.finish();
            let message = match done {
                Ok(HandlerResponse { reply: Some(reply) }) => reply,
                // Middleware ended it without a reply.
                Ok(HandlerResponse { reply: None }) => {
                    context.write_error(Some(&call.correlation_id), &MessageError::internal())
                }
                Err(error) => context.write_error(Some(&call.correlation_id), &error),
            };
            // A client with the reply may reuse the ID at once.
            context.queue().push_when_room(message, || drop(slot)).await;
        });
    }

    /// Aborts the RPCs, and waits for queued events within the timeout. They continue after it.
    pub(super) async fn end(mut self, within: Duration) {
        self.rpcs.abort_all();
        drop(self.events);
        let ended = async {
            // An aborted task is dropped at its next await.
            while self.rpcs.join_next().await.is_some() {}
            self.worker.await
        };
        let _ = timeout(within, ended).await;
    }
}

/// Runs middleware and handler, and turns a panic into an error.
async fn run_handler<D: ConnectionData>(
    router: &Router<D>,
    context: &Context<D>,
    next: Next<D>,
) -> Result<HandlerResponse, MessageError> {
    let ran = async { next.run(context.clone()).await };
    let done = AssertUnwindSafe(ran).catch_unwind().await.unwrap_or_else(|_| Err(MessageError::internal()));
    done.inspect_err(|error| router.inner().hooks.handler_failed(context.connection(), error))
}

/// The RPCs of a connection: a bounded number, each with its own ID.
pub(super) struct InFlightRpcs {
    permits: Concurrency,
    running: Arc<RunningRpcs>,
}

/// By ID, with the sender that aborts it; `None` once aborted.
type RunningRpcs = Mutex<HashMap<Box<str>, Option<oneshot::Sender<()>>>>;

/// Why an RPC gets no slot.
pub(super) enum RpcSlotError {
    Busy(Rejected),
    /// The ID is in flight.
    DuplicateId,
}

impl InFlightRpcs {
    pub(super) fn new(limit: u32) -> Self {
        InFlightRpcs { permits: Concurrency::fixed(limit), running: Arc::default() }
    }

    /// Reserves a slot.
    pub(super) fn acquire(&self, id: &str) -> Result<RpcSlot, RpcSlotError> {
        let mut running = lock(&self.running);
        if running.contains_key(id) {
            return Err(RpcSlotError::DuplicateId);
        }
        let permit = self.permits.try_acquire().map_err(RpcSlotError::Busy)?;
        let (abort, aborted) = oneshot::channel();
        running.insert(id.into(), Some(abort));
        Ok(RpcSlot { id: id.into(), running: Arc::clone(&self.running), aborted, permit: Some(permit) })
    }

    /// Aborts an RPC and returns whether there was one. Its ID stays taken until it has ended.
    pub(super) fn abort(&self, id: &str) -> bool {
        let abort = lock(&self.running).get_mut(id).and_then(Option::take);
        abort.is_some_and(|abort| abort.send(()).is_ok())
    }

    /// Returns whether the ID is in flight.
    pub(super) fn is_running(&self, id: &str) -> bool {
        lock(&self.running).contains_key(id)
    }

    pub(super) fn limit(&self) -> u32 {
        self.permits.limit()
    }

    pub(super) fn in_flight(&self) -> u32 {
        self.permits.in_flight()
    }
}

/// The slot of an RPC, released on drop.
pub(super) struct RpcSlot {
    id: Box<str>,
    running: Arc<RunningRpcs>,
    aborted: oneshot::Receiver<()>,
    /// `Some` until the slot is dropped.
    permit: Option<Permit>,
}

impl RpcSlot {
    /// Waits until the client aborts the RPC.
    pub(super) async fn aborted(&mut self) -> MessageError {
        // The sender lives as long as this slot, so it never closes without a message.
        let _ = (&mut self.aborted).await;
        MessageError::new(ErrorCode::Cancelled, "The call was given up")
    }
}

impl Drop for RpcSlot {
    fn drop(&mut self) {
        lock(&self.running).remove(&self.id);
        // Recent call latency is the retry hint.
        if let Some(permit) = self.permit.take() {
            permit.release(Completion::Success);
        }
    }
}
