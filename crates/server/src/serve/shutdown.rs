//! When it ends.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Poll, Waker};

use tokio::sync::watch;
use tokio::task::coop::unconstrained;

/// Tells everybody that it ends.
pub(crate) struct Ending(watch::Sender<bool>);

/// Hears when it ends.
#[derive(Clone)]
pub(crate) struct Shutdown(watch::Receiver<bool>);

impl Ending {
    pub(crate) fn new() -> (Self, Shutdown) {
        let (sender, receiver) = watch::channel(false);
        (Ending(sender), Shutdown(receiver))
    }

    pub(crate) fn begin(&self) {
        self.0.send_replace(true);
    }
}

impl Shutdown {
    /// Waits until it ends.
    pub(crate) async fn begun(&mut self) {
        let news = self.0.clone();
        // Without a budget: a task that has used its own up would be told that it has to wait, and stand in no line.
        let mut begun = pin!(unconstrained(self.0.wait_for(|begun| *begun)));
        let mut told: Option<Waker> = None;
        poll_fn(|context| {
            // Connections ask with every request. Who is going to be woken already need not stand in line again for that.
            let is_told = told.as_ref().is_some_and(|waker| waker.will_wake(context.waker()));
            if is_told && news.has_changed().is_ok_and(|changed| !changed) {
                return Poll::Pending;
            }
            told = Some(context.waker().clone());
            // Whoever tells is gone: that is an end, too.
            begun.as_mut().poll(context).map(drop)
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
    async fn who_has_asked_before_is_woken() {
        let (ending, mut shutdown) = Ending::new();
        let waiting = tokio::spawn(async move {
            let mut begun = pin!(shutdown.begun());
            let mut asked = 0;
            poll_fn(|context| {
                asked += 1;
                let begun = begun.as_mut().poll(context);
                if begun.is_pending() && asked < 3 {
                    context.waker().wake_by_ref();
                }
                begun
            })
            .await;
            asked
        });
        for _ in 0..10 {
            yield_now().await;
        }
        ending.begin();
        assert_eq!(waiting.await.expect("it ends"), 4);
    }

    #[tokio::test]
    async fn somebody_else_is_woken_who_asks_later() {
        let (ending, mut shutdown) = Ending::new();
        let mut begun = Box::pin(async move { shutdown.begun().await });
        let first = poll_fn(|context| Poll::Ready(begun.as_mut().poll(context))).await;
        assert!(first.is_pending());
        let waiting = tokio::spawn(begun);
        yield_now().await;
        ending.begin();
        waiting.await.expect("it ends");
    }

    /// As one does that has just accepted many connections.
    #[tokio::test]
    async fn who_asks_at_the_end_of_its_budget_is_woken() {
        let (ending, mut shutdown) = Ending::new();
        let waiting = tokio::spawn(async move {
            let mut begun = pin!(shutdown.begun());
            poll_fn(|context| {
                while has_budget_remaining() {
                    if let Poll::Ready(proceed) = poll_proceed(context) {
                        proceed.made_progress();
                    }
                }
                begun.as_mut().poll(context)
            })
            .await;
        });
        for _ in 0..10 {
            yield_now().await;
        }
        ending.begin();
        for _ in 0..10 {
            yield_now().await;
        }
        assert!(waiting.is_finished(), "nobody has woken it");
    }

    #[tokio::test]
    async fn it_ends_when_it_has_begun_before_and_when_nobody_can_tell() {
        let (ending, mut shutdown) = Ending::new();
        ending.begin();
        shutdown.begun().await;
        let (ending, mut shutdown) = Ending::new();
        drop(ending);
        shutdown.begun().await;
    }
}
