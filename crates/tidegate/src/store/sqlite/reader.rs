//! The reader thread. A check never waits for a write.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, Error};

use super::batch::Batch;
use super::busy_retry::retry_while_busy;
use super::error::store_error;
use super::job::{Job, JobResult};
use super::queue::{JobQueue, QueueCloseGuard};
use super::schema::TableSchema;
use crate::clock::Clock;

/// The state of the reading thread.
pub(super) struct ReaderThread {
    pub(super) connection: Connection,
    pub(super) table: Arc<TableSchema>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) busy_timeout: Duration,
    pub(super) queue: Arc<JobQueue>,
}

impl ReaderThread {
    /// Serves the queue, which holds checks only, until it is closed and empty.
    pub(super) fn run(self) {
        let _close_guard = QueueCloseGuard(&self.queue);
        let mut jobs = Vec::new();
        while self.queue.wait_for_jobs(&mut jobs) {
            jobs.retain(Job::is_wanted);
            // Only a connection that recovers the file after a crash blocks a reader.
            match retry_while_busy(self.busy_timeout, || true, || self.decide(&jobs)) {
                Ok(results) => jobs.drain(..).zip(results).for_each(|(job, result)| job.complete(result)),
                Err(error) => {
                    let error = store_error(error, &self.connection);
                    jobs.drain(..).for_each(|job| job.complete(Err(error.clone())));
                }
            }
        }
    }

    /// Decides all jobs on one snapshot of the file.
    fn decide(&self, jobs: &[Job]) -> Result<Vec<JobResult>, Error> {
        // The read transaction ends when it is dropped.
        let _transaction = self.connection.unchecked_transaction()?;
        let mut batch = Batch::new(&self.connection, &self.table);
        let now = self.clock.now();
        jobs.iter().map(|job| job.command.decide(&mut batch, now)).collect()
    }
}
