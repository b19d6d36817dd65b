//! Background settlements of dropped holds: a drop cannot wait for the store.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
#[cfg(feature = "tracing")]
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use tidegate_core::BoxFuture;
#[cfg(feature = "tracing")]
use tidegate_core::seconds;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, watch};

use super::{Budget, Hold};
use crate::resilience::REQUESTS_PER_TIMEOUT;
use crate::telemetry;

/// The maximum number of pending tasks of a budget. It bounds memory when many clients disconnect while the store is slow.
const MAX_PENDING: usize = 10_000;

/// The maximum number of guards that settle at once, so that they leave room in the store for decisions.
const MAX_SETTLING: usize = 4 * REQUESTS_PER_TIMEOUT;

/// The tasks of a budget.
pub(super) struct Background {
    /// The number of pending tasks.
    pending: watch::Sender<usize>,
    settling: Semaphore,
    /// The time from which the next failure may be logged, in microseconds.
    #[cfg(feature = "tracing")]
    log_due: AtomicU64,
}

impl Default for Background {
    fn default() -> Self {
        Background {
            pending: watch::Sender::default(),
            settling: Semaphore::new(MAX_SETTLING),
            #[cfg(feature = "tracing")]
            log_due: AtomicU64::new(0),
        }
    }
}

impl Budget {
    /// Waits until no settlement is pending in the background, for the end of a program. Call it before
    /// [`Limiter::close`](crate::Limiter::close).
    pub async fn flush(&self) {
        let mut pending = self.inner.background.pending.subscribe();
        // The sender cannot be gone: this budget has it.
        let _ = pending.wait_for(|pending| *pending == 0).await;
    }

    /// Runs `work`. If the caller drops it before its end, it is completed in the background, and `on_completion` gets its output.
    /// Outside a tokio runtime, work that is dropped is lost.
    pub(super) async fn complete<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
        on_completion: fn(&Budget, T),
    ) -> T {
        // Work that never waits cannot be dropped in the middle.
        if !self.inner.limiter.is_immediate()
            && let Ok(runtime) = Handle::try_current()
        {
            let work: Option<BoxFuture<'static, T>> = Some(Box::pin(work));
            return CompletedWork { budget: self.clone(), work, on_completion, runtime }.await;
        }
        work.await
    }

    /// Logs a failure, at most once a second.
    pub(super) fn log_failure(&self, _reason: &dyn fmt::Display) {
        #[cfg(feature = "tracing")]
        {
            let (now, log_due) = (self.inner.clock.now(), &self.inner.background.log_due);
            let (next, due) = (now.saturating_add(seconds(1)).as_micros(), log_due.load(Ordering::Relaxed));
            if now.as_micros() >= due
                && log_due.compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed).is_ok()
            {
                tracing::warn!(
                    limit = &*self.inner.limit,
                    reason = %_reason,
                    "a hold could not be settled in the background, and its estimate is the cost"
                );
            }
        }
    }

    fn spawn(&self, runtime: &Handle, work: impl Future<Output = ()> + Send + 'static) {
        let has_room = self.inner.background.pending.send_if_modified(|pending| {
            let has_room = *pending < MAX_PENDING;
            *pending += usize::from(has_room);
            has_room
        });
        if !has_room {
            return self.record_loss("too many are pending");
        }
        let task = PendingTask { budget: self.clone(), is_done: false };
        // A runtime that has ended drops the future.
        drop(runtime.spawn(async move {
            work.await;
            task.finish();
        }));
    }

    fn record_loss(&self, reason: &'static str) {
        telemetry::record_settlement(&self.inner.limit, "lost");
        self.log_failure(&reason);
    }
}

impl Hold {
    /// Settles the hold on `runtime`.
    pub(super) fn settle_in_background(self, cost: u64, runtime: &Handle) {
        let budget = self.budget.clone();
        let settlement = async move {
            let _turn = self.budget.inner.background.settling.acquire().await;
            if let Err(error) = self.settle_here(cost).await {
                self.budget.log_failure(&error);
            }
        };
        budget.spawn(runtime, settlement);
    }
}

/// A pending task. One that is dropped before it is done is lost: its runtime has ended.
struct PendingTask {
    budget: Budget,
    is_done: bool,
}

impl PendingTask {
    fn finish(mut self) {
        self.is_done = true;
    }
}

impl Drop for PendingTask {
    fn drop(&mut self) {
        if !self.is_done {
            self.budget.record_loss("its runtime has ended");
        }
        self.budget.inner.background.pending.send_modify(|pending| *pending -= 1);
    }
}

/// Work that is completed in the background when it is dropped before its end.
struct CompletedWork<T: Send + 'static> {
    budget: Budget,
    /// `None` at its end, and during a poll: after a panic it must not be polled again.
    work: Option<BoxFuture<'static, T>>,
    on_completion: fn(&Budget, T),
    runtime: Handle,
}

impl<T: Send + 'static> Future for CompletedWork<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let mut work = self.work.take().expect("polled after completion");
        let output = work.as_mut().poll(context);
        if output.is_pending() {
            self.work = Some(work);
        }
        output
    }
}

impl<T: Send + 'static> Drop for CompletedWork<T> {
    fn drop(&mut self) {
        let Some(work) = self.work.take() else { return };
        let (budget, on_completion) = (self.budget.clone(), self.on_completion);
        // Without a turn: it may have a connection to the store that others wait for.
        self.budget.spawn(&self.runtime, async move { on_completion(&budget, work.await) });
    }
}
