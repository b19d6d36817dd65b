//! An executor that runs the responses of an HTTP/2 connection in the task of the connection.

use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Context;

use hyper::rt::Executor;
use tidegate::resilience::{current_caller, with_caller};

use super::stall_guard::StallGuard;

/// Runs the responses of one HTTP/2 connection in its own task. Most are ready at once: a task of its own for each takes longer
/// than the response, and wakes other threads. A response that has to wait gets a task then, within a [`StallGuard`].
#[derive(Clone, Default)]
pub(crate) struct InlineExecutor(Arc<Mutex<Vec<BoxedResponse>>>);

pub(crate) type BoxedResponse = Pin<Box<dyn Future<Output = ()> + Send>>;

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for InlineExecutor {
    fn execute(&self, response: F) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Box::pin(response));
    }
}

impl InlineExecutor {
    /// Polls the responses that are new since the last call, and returns whether there were any.
    ///
    /// This is not done while the connection reads, so that the responses to several requests of one read share a write.
    pub(crate) fn run_pending(&self, context: &mut Context<'_>) -> bool {
        let pending = mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let any = !pending.is_empty();
        for mut response in pending {
            if response.as_mut().poll(context).is_pending() {
                // The new task polls it again, so that it is the one to be woken.
                let response = StallGuard::new(response);
                match current_caller() {
                    Some(caller) => tokio::spawn(with_caller(caller, response)),
                    None => tokio::spawn(response),
                };
            }
        }
        any
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::task::Poll;

    use tokio::runtime::Handle;
    use tokio::sync::oneshot;

    use super::*;

    async fn run_pending(executor: &InlineExecutor) -> bool {
        poll_fn(|context| Poll::Ready(executor.run_pending(context))).await
    }

    fn tasks() -> usize {
        Handle::current().metrics().num_alive_tasks()
    }

    #[tokio::test]
    async fn a_ready_response_takes_no_task() {
        let (executor, (tell, mut told)) = (InlineExecutor::default(), oneshot::channel());
        let before = tasks();
        executor.execute(async { tell.send(1).expect("heard") });
        assert!(told.try_recv().is_err(), "not before the connection has read");
        assert!(run_pending(&executor).await);
        assert_eq!((told.try_recv(), tasks()), (Ok(1), before));
        assert!(!run_pending(&executor).await, "once only");
    }

    #[tokio::test]
    async fn a_waiting_response_is_woken_in_its_own_task() {
        let (executor, (tell, told), (go, gone)) = (InlineExecutor::default(), oneshot::channel(), oneshot::channel());
        executor.execute(async {
            gone.await.expect("it goes on");
            tell.send(1).expect("heard");
        });
        assert!(run_pending(&executor).await);
        go.send(()).expect("it waits");
        assert_eq!(told.await, Ok(1));
    }
}
