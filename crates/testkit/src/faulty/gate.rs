//! A gate at which held calls wait.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// A gate that releases all waiters at once and stays closed for later ones.
#[derive(Debug, Default)]
pub(super) struct CallGate(Mutex<Waiters>);

#[derive(Debug, Default)]
struct Waiters {
    next: u64,
    /// The waiters by number. A missing number has been released.
    wakers: HashMap<u64, Waker>,
}

impl CallGate {
    /// Waits until the gate is released.
    pub(super) fn wait(self: &Arc<Self>) -> CallGateFuture {
        CallGateFuture { gate: self.clone(), number: None }
    }

    pub(super) fn release(&self) {
        let wakers = std::mem::take(&mut self.lock().wakers);
        // Not under the lock: a waker may run its task here.
        wakers.into_values().for_each(Waker::wake);
    }

    pub(super) fn waiter_count(&self) -> usize {
        self.lock().wakers.len()
    }

    fn lock(&self) -> MutexGuard<'_, Waiters> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A future that waits at the gate. Dropping it leaves the gate.
#[derive(Debug)]
pub(super) struct CallGateFuture {
    gate: Arc<CallGate>,
    number: Option<u64>,
}

impl Future for CallGateFuture {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let gate = self.gate.clone();
        let mut waiters = gate.lock();
        match self.number {
            None => {
                let number = waiters.next;
                waiters.next += 1;
                waiters.wakers.insert(number, context.waker().clone());
                self.number = Some(number);
                Poll::Pending
            }
            Some(number) => match waiters.wakers.get_mut(&number) {
                Some(waker) => {
                    waker.clone_from(context.waker());
                    Poll::Pending
                }
                None => Poll::Ready(()),
            },
        }
    }
}

impl Drop for CallGateFuture {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.gate.lock().wakers.remove(&number);
        }
    }
}
