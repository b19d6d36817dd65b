//! An executor that runs the responses of an HTTP/2 connection in the task of the connection.

use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use futures_util::stream::{FuturesUnordered, Stream};
use hyper::rt::Executor;

use super::stall_guard::StallGuard;

/// Takes the responses of one HTTP/2 connection, for [`InlineResponses`] to run.
#[derive(Clone, Default)]
pub(crate) struct InlineExecutor(Arc<Mutex<Vec<BoxedResponse>>>);

pub(crate) type BoxedResponse = Pin<Box<dyn Future<Output = ()> + Send>>;

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for InlineExecutor {
    fn execute(&self, response: F) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Box::pin(response));
    }
}

/// Runs the responses of one HTTP/2 connection in its own task. Most are ready at once: a task of its own for each takes longer
/// than the response, and wakes other threads.
///
/// A response that waits for the body of its request takes it as soon as the connection has read it, before other connections
/// have their turn. And all of them end with the connection.
#[derive(Default)]
pub(crate) struct InlineResponses {
    new: InlineExecutor,
    /// Those that were not ready at once.
    waiting: FuturesUnordered<StallGuard>,
}

impl InlineResponses {
    pub(crate) fn executor(&self) -> InlineExecutor {
        self.new.clone()
    }

    /// Polls the responses that are new or were woken, and returns whether there was a new one or one has ended.
    ///
    /// This is not done while the connection reads, so that the responses to several requests of one read share a write.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> bool {
        let new = mem::take(&mut *self.new.0.lock().unwrap_or_else(PoisonError::into_inner));
        let mut any = !new.is_empty();
        for mut response in new {
            if response.as_mut().poll(context).is_pending() {
                // Polled once more below, so that its own waker is the one to be woken.
                self.waiting.push(StallGuard::new(response));
            }
        }
        while let Poll::Ready(Some(())) = Pin::new(&mut self.waiting).poll_next(context) {
            any = true;
        }
        any
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::sync::oneshot;

    use super::*;

    async fn poll(responses: &mut InlineResponses) -> bool {
        poll_fn(|context| Poll::Ready(responses.poll(context))).await
    }

    #[tokio::test]
    async fn a_ready_response_is_run_once_and_not_before_the_connection_has_read() {
        let (mut responses, (tell, mut told)) = (InlineResponses::default(), oneshot::channel());
        responses.executor().execute(async { tell.send(1).expect("heard") });
        assert!(told.try_recv().is_err(), "not before the connection has read");
        assert!(poll(&mut responses).await);
        assert_eq!(told.try_recv(), Ok(1));
        assert!(!poll(&mut responses).await, "once only");
    }

    #[tokio::test]
    async fn a_waiting_response_wakes_the_task_of_its_connection() {
        let (mut responses, (tell, mut told), (go, gone)) =
            (InlineResponses::default(), oneshot::channel(), oneshot::channel());
        responses.executor().execute(async {
            gone.await.expect("it goes on");
            tell.send(1).expect("heard");
        });
        assert!(poll(&mut responses).await);
        tokio::spawn(async move { go.send(()).expect("it waits") });
        // Ready only once the response has ended, after this task was woken.
        poll_fn(|context| if responses.poll(context) { Poll::Ready(()) } else { Poll::Pending }).await;
        assert_eq!(told.try_recv(), Ok(1));
    }

    #[tokio::test]
    async fn a_waiting_response_ends_with_its_connection() {
        let (mut responses, (tell, told)) = (InlineResponses::default(), oneshot::channel::<()>());
        responses.executor().execute(async {
            std::future::pending::<()>().await;
            drop(tell);
        });
        poll(&mut responses).await;
        drop(responses);
        told.await.expect_err("it was dropped");
    }
}
