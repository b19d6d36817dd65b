//! Handlers at work: events one after the other, calls side by side.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;
use tidegate_core::BoxFuture;
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{sleep, timeout};

use super::super::{Answer, Code, Context, Data, Error, Next, Router};
use super::calls::Slot;

/// How many events may wait for the one that is worked on, before reading waits too.
const WAITING: usize = 32;

/// Handlers at work for one connection.
pub(super) struct Work {
    events: mpsc::Sender<BoxFuture<'static, ()>>,
    worker: JoinHandle<()>,
    calls: JoinSet<()>,
}

impl Work {
    pub(super) fn new() -> Self {
        let (events, mut waiting) = mpsc::channel::<BoxFuture<'static, ()>>(WAITING);
        let worker = tokio::spawn(async move {
            while let Some(event) = waiting.recv().await {
                event.await;
            }
        });
        Work { events, worker, calls: JoinSet::new() }
    }

    /// Has an event handled after those before it.
    pub(super) async fn event<D: Data>(&self, router: &Router<D>, context: Context<D>, next: Next<D>) {
        let router = router.clone();
        let event = async move {
            // What it sends should find room.
            context.queue().eased().await;
            if let Err(error) = run(&router, &context, next).await {
                context.connection().send_error(None, &error);
            }
        };
        // The worker is there for as long as there are events, unless the runtime ends.
        let _ = self.events.send(Box::pin(event)).await;
    }

    /// Has a call handled beside the others.
    pub(super) fn call<D: Data>(
        &mut self,
        router: &Router<D>,
        context: Context<D>,
        next: Next<D>,
        mut slot: Slot,
        within: Duration,
    ) {
        // Nothing is kept of those that are done.
        while self.calls.try_join_next().is_some() {}
        let router = router.clone();
        self.calls.spawn(async move {
            let Some(call) = context.call.clone() else { return };
            let done = tokio::select! {
                biased;
                error = slot.aborted() => Err(error),
                () = sleep(within) => Err(Error::new(Code::DeadlineExceeded, "The call took too long")),
                done = run(&router, &context, next) => done,
            };
            call.finish();
            let answer = match done {
                Ok(Answer { reply: Some(reply) }) => reply,
                // Middleware that has put an end to it without a word of its own.
                Ok(Answer { reply: None }) => context.write_error(Some(&call.correlation_id), &Error::internal()),
                Err(error) => context.write_error(Some(&call.correlation_id), &error),
            };
            // Who has the answer can come with the next call at once.
            context.queue().deliver(answer, || drop(slot)).await;
        });
    }

    /// Ends the calls, and waits so long for the events that were received. They go on after that.
    pub(super) async fn end(mut self, within: Duration) {
        self.calls.abort_all();
        drop(self.events);
        let ended = async {
            // A call is dropped where it waits next.
            while self.calls.join_next().await.is_some() {}
            self.worker.await
        };
        let _ = timeout(within, ended).await;
    }
}

/// Runs middleware and handler. A panic is an error too.
async fn run<D: Data>(router: &Router<D>, context: &Context<D>, next: Next<D>) -> Result<Answer, Error> {
    let ran = async { next.run(context.clone()).await };
    let done = AssertUnwindSafe(ran).catch_unwind().await.unwrap_or_else(|_| Err(Error::internal()));
    done.inspect_err(|error| router.inner().hooks.failed(context.connection(), error))
}
