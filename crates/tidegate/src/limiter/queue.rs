//! Queues of those who wait for the same limit and key: first come, first served.

use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Poll, Waker};

/// Every queue that somebody stands in. A queue is there only as long as somebody does.
#[derive(Default)]
pub(super) struct Queues {
    queues: Mutex<HashMap<String, Queue>>,
}

/// Who waits, in order; the one in front is being served.
#[derive(Default)]
struct Queue {
    waiting: VecDeque<(u64, Option<Waker>)>,
    next: u64,
}

impl Queue {
    fn is_first(&self, number: u64) -> bool {
        self.waiting.front().is_some_and(|(first, _)| *first == number)
    }
}

/// A place in a queue, given up when dropped.
pub(super) struct Ticket {
    queues: Arc<Queues>,
    queue: String,
    number: u64,
}

impl Queues {
    /// Joins the end of a queue.
    pub(super) fn join(self: &Arc<Self>, queue: String) -> Ticket {
        let mut queues = self.lock();
        let line = queues.entry(queue.clone()).or_default();
        let number = line.next;
        line.next += 1;
        line.waiting.push_back((number, None));
        drop(queues);
        Ticket { queues: Arc::clone(self), queue, number }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Queue>> {
        self.queues.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Ticket {
    /// Whether nobody came before, or all of them have gone.
    pub(super) fn is_first(&self) -> bool {
        self.queues.lock().get(&self.queue).is_some_and(|queue| queue.is_first(self.number))
    }

    /// Ends when everybody who came before has gone.
    pub(super) async fn turn(&self) {
        poll_fn(|context| {
            let mut queues = self.queues.lock();
            let queue = queues.get_mut(&self.queue).expect("a ticket keeps its queue");
            if queue.is_first(self.number) {
                return Poll::Ready(());
            }
            if let Some((_, waker)) = queue.waiting.iter_mut().find(|(number, _)| *number == self.number) {
                *waker = Some(context.waker().clone());
            }
            Poll::Pending
        })
        .await;
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut queues = self.queues.lock();
        let Some(queue) = queues.get_mut(&self.queue) else { return };
        queue.waiting.retain(|(number, _)| *number != self.number);
        let next = queue.waiting.front_mut().and_then(|(_, waker)| waker.take());
        if queue.waiting.is_empty() {
            queues.remove(&self.queue);
        }
        drop(queues);
        if let Some(waker) = next {
            waker.wake();
        }
    }
}
