//! The line in which jobs wait for a thread.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_core::{StoreError, StoreErrorKind, Timestamp};

use super::error::closed;
use super::job::Job;
use crate::clock::{Clock, SystemClock};

/// How many jobs may wait. More than that take longer than anybody waits, and memory has to end somewhere.
const MOST_WAITING: usize = 8_192;

/// How many operations share one transaction: enough that the commit is a small part of each, and few enough that others
/// are not kept from the file for long.
pub(super) const MOST_TOGETHER: usize = 256;

/// When jobs come as soon as this one after the other, the thread looks out for the next one for so long before it goes to
/// sleep: waking it takes longer than a decision does. With fewer jobs it sleeps at once.
const SOON: Duration = Duration::from_micros(50);

/// The line in which jobs wait for a thread. Nobody holds its lock for longer than it takes to move a job.
#[derive(Default)]
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    filled: Condvar,
    /// Somebody has come, or nobody comes any more: for a thread that looks out and would keep whoever comes from the lock.
    has_news: AtomicBool,
}

#[derive(Default)]
struct Waiting {
    jobs: VecDeque<Job>,
    /// Nothing more comes.
    is_closed: bool,
    /// The thread sleeps until somebody wakes it.
    is_asleep: bool,
    /// The last job came so soon that the next is worth looking out for.
    is_brisk: bool,
}

impl Queue {
    /// Stands in line, or says at once why that is not possible.
    pub(super) fn push(&self, job: Job) -> Result<(), StoreError> {
        let mut waiting = self.lock();
        if waiting.is_closed {
            return Err(closed());
        }
        if waiting.jobs.len() >= MOST_WAITING {
            let message = format!("sqlite: {MOST_WAITING} calls wait for the file already");
            return Err(StoreError::new(StoreErrorKind::Unavailable, message));
        }
        waiting.jobs.push_back(job);
        self.has_news.store(true, Ordering::Relaxed);
        let wakes = std::mem::take(&mut waiting.is_asleep);
        drop(waiting);
        if wakes {
            self.filled.notify_one();
        }
        Ok(())
    }

    /// Moves jobs from the line to `jobs`, waiting for the first. False when there is none and no more will come.
    pub(super) fn take(&self, jobs: &mut Vec<Job>) -> bool {
        let mut waiting = self.lock();
        let began = waiting.jobs.is_empty().then(|| SystemClock.now());
        if let Some(began) = began
            && waiting.is_brisk
        {
            // A clock that was set back meanwhile ends it too.
            let soon = |now: Timestamp| now >= began && now.since(began) < SOON;
            self.has_news.store(waiting.is_closed, Ordering::Relaxed);
            drop(waiting);
            while !self.has_news.load(Ordering::Relaxed) && soon(SystemClock.now()) {
                // Whoever else wants this processor gets it.
                std::thread::yield_now();
            }
            waiting = self.lock();
        }
        while waiting.jobs.is_empty() {
            if waiting.is_closed {
                return false;
            }
            waiting.is_asleep = true;
            waiting = self.filled.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
        waiting.is_brisk = began.is_none_or(|began| SystemClock.now().since(began) < SOON);
        waiting.fill(jobs, |_| true);
        true
    }

    /// Moves decisions that have come in the meantime to `jobs`.
    pub(super) fn add_decisions(&self, jobs: &mut Vec<Job>) {
        self.lock().fill(jobs, |job| job.work.is_decision());
    }

    /// Lets nothing more in. What is in line stays there.
    pub(super) fn close(&self) {
        let mut waiting = self.lock();
        waiting.is_closed = true;
        self.has_news.store(true, Ordering::Relaxed);
        drop(waiting);
        self.filled.notify_one();
    }

    /// Nobody waits.
    pub(super) fn is_empty(&self) -> bool {
        self.lock().jobs.is_empty()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    /// Lets nothing more in, and takes what is in line. Only the thread that serves it does this.
    pub(super) fn clear(&self) -> VecDeque<Job> {
        let mut waiting = self.lock();
        waiting.is_closed = true;
        std::mem::take(&mut waiting.jobs)
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    /// Moves jobs until there are enough operations, or one comes that is not `wanted`.
    fn fill(&mut self, jobs: &mut Vec<Job>, wanted: impl Fn(&Job) -> bool) {
        let mut steps: usize = jobs.iter().map(|job| job.work.steps()).sum();
        while steps < MOST_TOGETHER
            && let Some(job) = self.jobs.pop_front_if(|job| wanted(job))
        {
            steps += job.work.steps();
            jobs.push(job);
        }
    }
}

/// Held by the thread that serves a queue: when that ends, for whatever reason, nobody waits for it any more.
pub(super) struct Served<'a>(pub(super) &'a Queue);

impl Drop for Served<'_> {
    fn drop(&mut self) {
        // Outside of the lock: whoever is told may ask again at once.
        drop(self.0.clear());
    }
}
