//! The shutdown signal of the server, cheap to poll with every request.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Poll, Waker};

use tokio::sync::watch;
use tokio::task::coop::unconstrained;

/// Starts the shutdown.
pub(crate) struct ShutdownTrigger(watch::Sender<bool>);

/// Receives the start of the shutdown.
#[derive(Clone)]
pub(crate) struct Shutdown(watch::Receiver<bool>);

impl ShutdownTrigger {
    pub(crate) fn new() -> (Self, Shutdown) {
        let (sender, receiver) = watch::channel(false);
        (ShutdownTrigger(sender), Shutdown(receiver))
    }

    pub(crate) fn trigger(&self) {
        self.0.send_replace(true);
    }
}

impl Shutdown {
    /// Waits until the shutdown starts.
    pub(crate) async fn wait(&mut self) {
        let changes = self.0.clone();
        // Without tokio's cooperative budget: a task without budget would be pending and never be woken.
        let mut started = pin!(unconstrained(self.0.wait_for(|started| *started)));
        let mut registered: Option<Waker> = None;
        poll_fn(|context| {
            // Connections poll this with every request. A registered waker need not be registered again.
            let is_registered = registered.as_ref().is_some_and(|waker| waker.will_wake(context.waker()));
            if is_registered && changes.has_changed().is_ok_and(|changed| !changed) {
                return Poll::Pending;
            }
            registered = Some(context.waker().clone());
            // A trigger that is gone is an end, too.
            started.as_mut().poll(context).map(drop)
        })
        .await;
    }
}

#[cfg(test)]
mod tests {
    use tokio::task::coop::{has_budget_remaining, poll_proceed};
    use tokio::task::yield_now;

    use super::*;

    #[tokio::test]
    async fn a_future_polled_several_times_is_woken() {
        let (ending, mut shutdown) = ShutdownTrigger::new();
        let waiting = tokio::spawn(async move {
            let mut started = pin!(shutdown.wait());
            let mut polls = 0;
            poll_fn(|context| {
                polls += 1;
                let started = started.as_mut().poll(context);
                if started.is_pending() && polls < 3 {
                    context.waker().wake_by_ref();
                }
                started
            })
            .await;
            polls
        });
        for _ in 0..10 {
            yield_now().await;
        }
        ending.trigger();
        assert_eq!(waiting.await.expect("it ends"), 4);
    }

    #[tokio::test]
    async fn the_task_that_polled_last_is_woken() {
        let (ending, mut shutdown) = ShutdownTrigger::new();
        let mut started = Box::pin(async move { shutdown.wait().await });
        let first = poll_fn(|context| Poll::Ready(started.as_mut().poll(context))).await;
        assert!(first.is_pending());
        let waiting = tokio::spawn(started);
        yield_now().await;
        ending.trigger();
        waiting.await.expect("it ends");
    }

    /// As a task does that has just accepted many connections.
    #[tokio::test]
    async fn a_task_without_budget_is_woken() {
        let (ending, mut shutdown) = ShutdownTrigger::new();
        let waiting = tokio::spawn(async move {
            let mut started = pin!(shutdown.wait());
            poll_fn(|context| {
                while has_budget_remaining() {
                    if let Poll::Ready(proceed) = poll_proceed(context) {
                        proceed.made_progress();
                    }
                }
                started.as_mut().poll(context)
            })
            .await;
        });
        for _ in 0..10 {
            yield_now().await;
        }
        ending.trigger();
        for _ in 0..10 {
            yield_now().await;
        }
        assert!(waiting.is_finished(), "it was not woken");
    }

    #[tokio::test]
    async fn wait_returns_after_the_start_and_without_a_trigger() {
        let (ending, mut shutdown) = ShutdownTrigger::new();
        ending.trigger();
        shutdown.wait().await;
        let (ending, mut shutdown) = ShutdownTrigger::new();
        drop(ending);
        shutdown.wait().await;
    }
}
