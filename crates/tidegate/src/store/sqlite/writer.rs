//! The writer thread: one connection, and one transaction for all waiting jobs.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::{Connection, Error, params};
use tokio::sync::watch;

use super::autocommit;
use super::batch::Batch;
use super::busy_retry::retry_while_busy;
use super::error::store_error;
use super::job::{Command, Job, JobOutput, JobResult};
use super::queue::{JobQueue, MAX_BATCH_STEPS, QueueCloseGuard};
use super::schema::TableSchema;
use super::wal::WalCheckpointer;
use crate::clock::Clock;

/// The most rows in one sweep. It is a transaction of its own, and takes about a millisecond.
pub(super) const SWEEP_ROWS: usize = 128;

/// The most sweeps after a batch while other jobs wait. They are enough for twice as many rows as a batch can add, and
/// one to catch up.
const MAX_SWEEPS_PER_BATCH: usize = 2 * MAX_BATCH_STEPS / SWEEP_ROWS + 1;

/// The state of the writing thread.
pub(super) struct WriterThread {
    pub(super) connection: Connection,
    pub(super) wal: WalCheckpointer,
    pub(super) table: Arc<TableSchema>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) busy_timeout: Duration,
    pub(super) queue: Arc<JobQueue>,
    pub(super) reader_queue: Arc<JobQueue>,
    pub(super) reader_handle: JoinHandle<()>,
    /// Dropped when both threads have ended.
    pub(super) ended_sender: watch::Sender<()>,
    /// The number of rows that sweeps still have to look for: two for each added row, so that expired rows become fewer.
    pub(super) sweep_debt: usize,
}

impl WriterThread {
    /// Serves the queue until it is closed and empty.
    pub(super) fn run(mut self) {
        let queue = Arc::clone(&self.queue);
        let close_guard = QueueCloseGuard(&queue);
        let mut jobs = Vec::new();
        while queue.wait_for_jobs(&mut jobs) {
            self.serve(&mut jobs);
        }
        drop(close_guard);
        self.shut_down();
    }

    fn serve(&mut self, jobs: &mut Vec<Job>) {
        jobs.retain(Job::is_wanted);
        let others: Vec<Job> = jobs.extract_if(.., |job| !job.command.is_decision()).collect();
        if !jobs.is_empty() {
            self.decide(jobs);
        }
        // No caller waits for these sweeps. They wait for the lock only after a transaction of the caller added rows, because
        // it may still hold the lock.
        let mut sweep_timeout = Duration::ZERO;
        for job in others {
            let count = match &job.command {
                Command::RecordAddedRows(rows) => {
                    self.sweep_debt += 2 * *rows;
                    sweep_timeout = self.busy_timeout;
                    continue;
                }
                Command::Sweep => self.sweep(self.busy_timeout, || job.is_wanted()),
                #[cfg(feature = "testing")]
                Command::SweepAt(at) => self.sweep_at(*at),
                _ => unreachable!("decisions were taken out"),
            };
            job.complete(count.map(JobOutput::Count).map_err(|error| store_error(error, &self.connection)));
        }
        self.sweep_by_debt(sweep_timeout);
        self.wal.checkpoint_if_long(&self.connection);
    }

    fn sweep_by_debt(&mut self, busy_timeout: Duration) {
        for swept in 0.. {
            if self.sweep_debt < SWEEP_ROWS || (swept >= MAX_SWEEPS_PER_BATCH && !self.queue.is_empty()) {
                return;
            }
            // A new job does not wait until this has the lock.
            match self.sweep(busy_timeout, || self.queue.is_empty() && !self.queue.is_closed()) {
                Ok(SWEEP_ROWS) => {
                    self.sweep_debt -= SWEEP_ROWS;
                    self.wal.checkpoint_if_long(&self.connection);
                }
                Ok(_) => self.sweep_debt = 0,
                // Another connection writes just now, or the file cannot be written. The next batch tries again.
                Err(_) => return,
            }
        }
    }

    /// Decides all jobs in one transaction, and completes them once it is committed.
    fn decide(&mut self, jobs: &mut Vec<Job>) {
        if let [job] = &**jobs
            && let Some((output, added)) = autocommit::try_decide(&self.connection, &self.table, job, self.clock.now())
        {
            self.sweep_debt += 2 * added;
            if let Some(job) = jobs.pop() {
                job.complete(Ok(output));
            }
            return;
        }
        match self.transact(jobs) {
            Ok(results) => jobs.drain(..).zip(results).for_each(|(job, result)| job.complete(result)),
            Err(error) => {
                if !self.connection.is_autocommit() {
                    // If this fails as well, the next transaction tries again.
                    let _ = self.run_cached("ROLLBACK");
                }
                let error = store_error(error, &self.connection);
                // Closing does not wait for a lock more than once.
                let others = if self.queue.is_closed() { self.queue.close_and_drain() } else { Default::default() };
                jobs.drain(..).chain(others).for_each(|job| job.complete(Err(error.clone())));
            }
        }
    }

    fn transact(&mut self, jobs: &mut Vec<Job>) -> Result<Vec<JobResult>, Error> {
        if !self.connection.is_autocommit() {
            // An earlier rollback failed.
            self.run_cached("ROLLBACK")?;
        }
        retry_while_busy(
            self.busy_timeout,
            || {
                jobs.retain(Job::is_wanted);
                !jobs.is_empty()
            },
            || self.run_cached("BEGIN IMMEDIATE"),
        )?;
        // These jobs came while this waited for the lock.
        self.queue.take_decisions(jobs);
        jobs.retain(Job::is_wanted);
        let now = self.clock.now();
        let mut batch = Batch::new(&self.connection, &self.table);
        let results = jobs.iter().map(|job| job.command.decide(&mut batch, now)).collect::<Result<_, _>>()?;
        let added = batch.write()?;
        self.run_cached("COMMIT")?;
        self.sweep_debt += 2 * added;
        Ok(results)
    }

    /// Deletes one batch of expired rows, and returns their number.
    fn sweep(&self, busy_timeout: Duration, is_wanted: impl FnMut() -> bool) -> Result<usize, Error> {
        let now = self.clock.now().as_micros().min(i64::MAX as u64) as i64;
        // The statement is a transaction by itself.
        let sweep = || self.connection.prepare_cached(&self.table.sweep)?.execute(params![now, SWEEP_ROWS as i64]);
        retry_while_busy(busy_timeout, is_wanted, sweep)
    }

    fn run_cached(&self, statement: &str) -> Result<(), Error> {
        self.connection.prepare_cached(statement)?.execute([]).map(|_| ())
    }

    /// Leaves one file behind: a checkpoint empties the log, and the last connection to close removes it.
    fn shut_down(self) {
        self.reader_queue.close();
        // A panic of the reading thread does not matter here.
        let _ = self.reader_handle.join();
        let _ = self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        drop(self.connection);
        drop(self.ended_sender);
    }

    /// Deletes the rows that are as good as new at `at`, and counts the others.
    #[cfg(feature = "testing")]
    fn sweep_at(&self, at: tidegate_core::Timestamp) -> Result<usize, Error> {
        let any_quota = tidegate_core::Quota::token_bucket(1, Duration::from_secs(1)).expect("a valid quota");
        retry_while_busy(
            self.busy_timeout,
            || true,
            || {
                let transaction = self.connection.unchecked_transaction()?;
                let mut select = transaction.prepare(&self.table.select_all)?;
                let mut used = 0;
                let mut rows = select.query([])?;
                let mut new_keys: Vec<Vec<u8>> = Vec::new();
                while let Some(row) = rows.next()? {
                    let value: Vec<u8> = row.get(1)?;
                    match crate::store::codec::decode(&value, &any_quota) {
                        Ok((quota, state)) if state.is_new(&quota, at) => new_keys.push(row.get(0)?),
                        _ => used += 1,
                    }
                }
                drop(rows);
                drop(select);
                for row_key in new_keys {
                    transaction.execute(&self.table.delete, [row_key])?;
                }
                transaction.commit()?;
                Ok(used)
            },
        )
    }
}
