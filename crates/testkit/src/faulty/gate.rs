//! Where held calls wait.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// A gate that lets everybody who waits through at once, and closes behind them.
#[derive(Debug, Default)]
pub(super) struct Gate(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    next: u64,
    /// Who waits, by number. Who is not in here has been let through.
    wakers: HashMap<u64, Waker>,
}

impl Gate {
    /// Waits until the gate is released.
    pub(super) fn held(self: &Arc<Self>) -> Held {
        Held { gate: self.clone(), number: None }
    }

    pub(super) fn release(&self) {
        let wakers = std::mem::take(&mut self.lock().wakers);
        // Not under the lock: a waker may run what it wakes.
        wakers.into_values().for_each(Waker::wake);
    }

    pub(super) fn waiting(&self) -> usize {
        self.lock().wakers.len()
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A wait at the gate. Dropping it gives up the place.
#[derive(Debug)]
pub(super) struct Held {
    gate: Arc<Gate>,
    number: Option<u64>,
}

impl Future for Held {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let gate = self.gate.clone();
        let mut waiting = gate.lock();
        match self.number {
            None => {
                let number = waiting.next;
                waiting.next += 1;
                waiting.wakers.insert(number, context.waker().clone());
                self.number = Some(number);
                Poll::Pending
            }
            Some(number) => match waiting.wakers.get_mut(&number) {
                Some(waker) => {
                    waker.clone_from(context.waker());
                    Poll::Pending
                }
                None => Poll::Ready(()),
            },
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.gate.lock().wakers.remove(&number);
        }
    }
}
