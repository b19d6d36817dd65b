//! The answers of a connection, made in its own task.

use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Context;
use std::time::Duration;

use hyper::rt::Executor;
use tokio::time::timeout;

/// Makes the answers of one HTTP/2 connection where its requests are read: most are ready as soon as they are asked for, and to hand
/// each to a task of its own takes longer than to make it, and wakes other threads. Those that have to wait get their task then,
/// and a time: a client that never makes room for its answers would have them kept for it.
#[derive(Clone, Default)]
pub(crate) struct InPlace(Arc<Mutex<Asked>>);

#[derive(Default)]
struct Asked {
    answering: Vec<Answering>,
    /// The time of the next.
    within: Option<Duration>,
}

struct Answering {
    answer: Pin<Box<dyn Future<Output = ()> + Send>>,
    within: Option<Duration>,
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for InPlace {
    fn execute(&self, answering: F) {
        let mut asked = self.lock();
        let within = asked.within.take();
        asked.answering.push(Answering { answer: Box::pin(answering), within });
    }
}

impl InPlace {
    /// Says how long the answer to the request that is read now may take, until all of it is on its way.
    pub(crate) fn within(&self, time: Duration) {
        self.lock().within = Some(time);
    }

    /// Makes the answers to what was asked since the last time. Says whether there were any, which are to be sent then.
    ///
    /// Not while the connection reads: whoever has sent several requests at once gets their answers together, and they can share a write.
    pub(crate) fn answer(&self, context: &mut Context<'_>) -> bool {
        let asked = mem::take(&mut self.lock().answering);
        let any = !asked.is_empty();
        for Answering { mut answer, within } in asked {
            if answer.as_mut().poll(context).is_pending() {
                // Which asks it again, so that it is the new task that is woken.
                match within {
                    Some(time) => drop(tokio::spawn(async move { drop(timeout(time, answer).await) })),
                    None => drop(tokio::spawn(answer)),
                }
            }
        }
        any
    }

    fn lock(&self) -> MutexGuard<'_, Asked> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
