//! The answers of a connection, made in its own task.

use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Context;

use hyper::rt::Executor;

use super::sending::Sending;

/// Makes the answers of one HTTP/2 connection where its requests are read: most are ready as soon as they are asked for, and to hand
/// each to a task of its own takes longer than to make it, and wakes other threads. Those that have to wait get their task then, and
/// clients do not keep it for ever.
#[derive(Clone, Default)]
pub(crate) struct InPlace(Arc<Mutex<Vec<Answering>>>);

pub(crate) type Answering = Pin<Box<dyn Future<Output = ()> + Send>>;

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for InPlace {
    fn execute(&self, answering: F) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Box::pin(answering));
    }
}

impl InPlace {
    /// Makes the answers to what was asked since the last time. Says whether there were any, which are to be sent then.
    ///
    /// Not while the connection reads: whoever has sent several requests at once gets their answers together, and they can share a write.
    pub(crate) fn answer(&self, context: &mut Context<'_>) -> bool {
        let asked = mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let any = !asked.is_empty();
        for mut answering in asked {
            if answering.as_mut().poll(context).is_pending() {
                // Which asks it again, so that it is the new task that is woken.
                tokio::spawn(Sending::new(answering));
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

    async fn answer(answers: &InPlace) -> bool {
        poll_fn(|context| Poll::Ready(answers.answer(context))).await
    }

    fn tasks() -> usize {
        Handle::current().metrics().num_alive_tasks()
    }

    #[tokio::test]
    async fn what_is_ready_takes_no_task() {
        let (answers, (tell, mut told)) = (InPlace::default(), oneshot::channel());
        let before = tasks();
        answers.execute(async { tell.send(1).expect("heard") });
        assert!(told.try_recv().is_err(), "not before the connection was read");
        assert!(answer(&answers).await);
        assert_eq!((told.try_recv(), tasks()), (Ok(1), before));
        assert!(!answer(&answers).await, "once only");
    }

    #[tokio::test]
    async fn what_has_to_wait_is_woken_whoever_asked_first() {
        let (answers, (tell, told), (go, gone)) = (InPlace::default(), oneshot::channel(), oneshot::channel());
        answers.execute(async {
            gone.await.expect("it goes on");
            tell.send(1).expect("heard");
        });
        assert!(answer(&answers).await);
        go.send(()).expect("it waits");
        assert_eq!(told.await, Ok(1));
    }
}
