//! The thread that reads: a look never waits for whoever writes.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, Error};

use super::batch::Batch;
use super::error::store_error;
use super::job::{Job, Reply};
use super::patience::patiently;
use super::queue::{Queue, Served};
use super::schema::Table;
use crate::clock::Clock;

/// What the thread that reads works with.
pub(super) struct Reader {
    pub(super) connection: Connection,
    pub(super) table: Arc<Table>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) busy_timeout: Duration,
    pub(super) queue: Arc<Queue>,
}

impl Reader {
    /// Serves the queue, in which are looks only, until it is closed and empty.
    pub(super) fn run(self) {
        let _served = Served(&self.queue);
        let mut jobs = Vec::new();
        while self.queue.take(&mut jobs) {
            jobs.retain(Job::is_wanted);
            // Usually nobody is ever in the way of a reader, but for somebody who mends the file after a crash.
            match patiently(self.busy_timeout, || true, || self.look(&jobs)) {
                Ok(replies) => jobs.drain(..).zip(replies).for_each(|(job, reply)| job.answer(reply)),
                Err(error) => {
                    let error = store_error(error, &self.connection);
                    jobs.drain(..).for_each(|job| job.answer(Err(error.clone())));
                }
            }
        }
    }

    /// Everybody sees the file at the same moment.
    fn look(&self, jobs: &[Job]) -> Result<Vec<Reply>, Error> {
        // Ended when it is dropped.
        let _read = self.connection.unchecked_transaction()?;
        let mut batch = Batch::new(&self.connection, &self.table);
        let now = self.clock.now();
        jobs.iter().map(|job| job.work.decide(&mut batch, now)).collect()
    }
}
