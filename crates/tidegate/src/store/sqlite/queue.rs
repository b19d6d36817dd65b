//! The queue of jobs that wait for a thread of the store.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_core::{StoreError, StoreErrorKind, Timestamp};

use super::error::closed_error;
use super::job::Job;
use crate::clock::{Clock, SystemClock};

/// The most jobs that may wait. More would wait longer than any caller does, and memory has to be bounded.
const MAX_WAITING_JOBS: usize = 8_192;

/// The most operations in one transaction. With so many, the commit is a small part of the cost of each. They are few enough
/// that the transaction does not lock the file for long.
pub(super) const MAX_BATCH_STEPS: usize = 256;

/// How long the thread spins for the next job before it sleeps, if the last job came within the same time. Waking the thread
/// takes longer than a decision. With fewer jobs, the thread sleeps at once.
const SPIN_TIME: Duration = Duration::from_micros(50);

/// A queue of jobs that wait for a thread. Its lock is held no longer than it takes to move a job.
#[derive(Default)]
pub(super) struct JobQueue {
    state: Mutex<QueueState>,
    wake_up: Condvar,
    /// Whether a job was added or the queue was closed. A spinning thread polls this instead of taking the lock.
    is_changed: AtomicBool,
}

#[derive(Default)]
struct QueueState {
    jobs: VecDeque<Job>,
    /// The queue accepts no more jobs.
    is_closed: bool,
    /// The thread sleeps until it is woken.
    is_asleep: bool,
    /// The last job came so soon that spinning for the next one is worthwhile.
    is_spin_worthwhile: bool,
}

impl JobQueue {
    /// Adds a job. Returns an error when the queue is closed or full.
    pub(super) fn push(&self, job: Job) -> Result<(), StoreError> {
        let mut state = self.lock();
        if state.is_closed {
            return Err(closed_error());
        }
        if state.jobs.len() >= MAX_WAITING_JOBS {
            let message = format!("sqlite: {MAX_WAITING_JOBS} calls wait for the file already");
            return Err(StoreError::new(StoreErrorKind::Overloaded, message));
        }
        state.jobs.push_back(job);
        self.is_changed.store(true, Ordering::Relaxed);
        let should_wake = std::mem::take(&mut state.is_asleep);
        drop(state);
        if should_wake {
            self.wake_up.notify_one();
        }
        Ok(())
    }

    /// Moves jobs to `jobs`, and waits for the first one. Returns false when the queue is closed and empty.
    pub(super) fn wait_for_jobs(&self, jobs: &mut Vec<Job>) -> bool {
        let mut state = self.lock();
        let began = state.jobs.is_empty().then(|| SystemClock.now());
        if let Some(began) = began
            && state.is_spin_worthwhile
        {
            // A clock that was set back meanwhile ends it too.
            let is_spin_time = |now: Timestamp| now >= began && now.since(began) < SPIN_TIME;
            self.is_changed.store(state.is_closed, Ordering::Relaxed);
            drop(state);
            while !self.is_changed.load(Ordering::Relaxed) && is_spin_time(SystemClock.now()) {
                // Other threads may need this processor.
                std::thread::yield_now();
            }
            state = self.lock();
        }
        while state.jobs.is_empty() {
            if state.is_closed {
                return false;
            }
            state.is_asleep = true;
            state = self.wake_up.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.is_spin_worthwhile = began.is_none_or(|began| SystemClock.now().since(began) < SPIN_TIME);
        state.fill(jobs, |_| true);
        true
    }

    /// Moves decisions that have come in the meantime to `jobs`.
    pub(super) fn take_decisions(&self, jobs: &mut Vec<Job>) {
        self.lock().fill(jobs, |job| job.command.is_decision());
    }

    /// Closes the queue to new jobs. The jobs in it stay.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        self.is_changed.store(true, Ordering::Relaxed);
        drop(state);
        self.wake_up.notify_one();
    }

    /// Returns whether no job waits.
    pub(super) fn is_empty(&self) -> bool {
        self.lock().jobs.is_empty()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    /// Closes the queue, and takes the jobs in it. Only the thread that serves it calls this.
    pub(super) fn close_and_drain(&self) -> VecDeque<Job> {
        let mut state = self.lock();
        state.is_closed = true;
        std::mem::take(&mut state.jobs)
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl QueueState {
    /// Moves jobs until a batch is full or `is_accepted` returns false.
    fn fill(&mut self, jobs: &mut Vec<Job>, is_accepted: impl Fn(&Job) -> bool) {
        let mut steps: usize = jobs.iter().map(|job| job.command.step_count()).sum();
        while steps < MAX_BATCH_STEPS
            && let Some(job) = self.jobs.pop_front_if(|job| is_accepted(job))
        {
            steps += job.command.step_count();
            jobs.push(job);
        }
    }
}

/// A guard of the thread that serves a queue. When the thread ends, even by a panic, the guard closes the queue and drops its
/// jobs, so that no caller waits for them.
pub(super) struct QueueCloseGuard<'a>(pub(super) &'a JobQueue);

impl Drop for QueueCloseGuard<'_> {
    fn drop(&mut self) {
        // Jobs are dropped outside of the lock: a caller that learns of it may call again at once.
        drop(self.0.close_and_drain());
    }
}
