//! The thread that writes: one connection, one transaction for all who wait.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::{Connection, Error, params};
use tokio::sync::watch;

use super::alone;
use super::batch::Batch;
use super::error::store_error;
use super::job::{Answer, Job, Reply, Work};
use super::log::Log;
use super::patience::patiently;
use super::queue::{MOST_TOGETHER, Queue, Served};
use super::schema::Table;
use crate::clock::Clock;

/// How many rows are swept at a time, in a transaction of their own: about a millisecond.
pub(super) const SWEEP: usize = 128;

/// How often that is done after a batch at most while others wait: for twice as many rows as a batch can add, and one more to catch up.
const SWEEPS: usize = 2 * MOST_TOGETHER / SWEEP + 1;

/// What the thread that writes works with.
pub(super) struct Writer {
    pub(super) connection: Connection,
    pub(super) log: Log,
    pub(super) table: Arc<Table>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) busy_timeout: Duration,
    pub(super) queue: Arc<Queue>,
    /// The other thread, and its queue.
    pub(super) reader: (Arc<Queue>, JoinHandle<()>),
    /// Dropped when everything has ended.
    pub(super) ended: watch::Sender<()>,
    /// How many rows are to be looked for that may go: two for every one that was added, so that they become fewer.
    pub(super) owed: usize,
}

impl Writer {
    /// Serves the queue until it is closed and empty.
    pub(super) fn run(mut self) {
        let queue = Arc::clone(&self.queue);
        let served = Served(&queue);
        let mut jobs = Vec::new();
        while queue.take(&mut jobs) {
            self.serve(&mut jobs);
        }
        drop(served);
        self.end();
    }

    fn serve(&mut self, jobs: &mut Vec<Job>) {
        jobs.retain(Job::is_wanted);
        let others: Vec<Job> = jobs.extract_if(.., |job| !job.work.is_decision()).collect();
        if !jobs.is_empty() {
            self.decide(jobs);
        }
        // Nobody waits for these, and whoever added the rows may still hold the lock.
        let mut patience = Duration::ZERO;
        for job in others {
            let done = match &job.work {
                Work::Added(rows) => {
                    self.owed += 2 * *rows;
                    patience = self.busy_timeout;
                    continue;
                }
                Work::Sweep => self.sweep(self.busy_timeout, || job.is_wanted()),
                #[cfg(feature = "testing")]
                Work::Held(at) => self.held(*at),
                _ => unreachable!("decisions are decided"),
            };
            job.answer(done.map(Answer::Count).map_err(|error| store_error(error, &self.connection)));
        }
        self.sweep_what_is_owed(patience);
        self.log.shorten(&self.connection);
    }

    fn sweep_what_is_owed(&mut self, patience: Duration) {
        for swept in 0.. {
            if self.owed < SWEEP || (swept >= SWEEPS && !self.queue.is_empty()) {
                return;
            }
            // Whoever comes meanwhile does not wait for a lock that this waits for.
            match self.sweep(patience, || self.queue.is_empty() && !self.queue.is_closed()) {
                Ok(SWEEP) => {
                    self.owed -= SWEEP;
                    self.log.shorten(&self.connection);
                }
                Ok(_) => self.owed = 0,
                // Somebody else writes just now, or nobody can: it is tried again after the next batch.
                Err(_) => return,
            }
        }
    }

    /// Decides all of them in one transaction, and answers once it is committed.
    fn decide(&mut self, jobs: &mut Vec<Job>) {
        if let [job] = &**jobs
            && let Some((answer, added)) = alone::decide(&self.connection, &self.table, job, self.clock.now())
        {
            self.owed += 2 * added;
            if let Some(job) = jobs.pop() {
                job.answer(Ok(answer));
            }
            return;
        }
        match self.transact(jobs) {
            Ok(replies) => jobs.drain(..).zip(replies).for_each(|(job, reply)| job.answer(reply)),
            Err(error) => {
                if !self.connection.is_autocommit() {
                    // If this fails as well, it is tried again before the next transaction.
                    let _ = self.run_cached("ROLLBACK");
                }
                let error = store_error(error, &self.connection);
                // Closing does not wait for a lock more than once.
                let others = if self.queue.is_closed() { self.queue.clear() } else { Default::default() };
                jobs.drain(..).chain(others).for_each(|job| job.answer(Err(error.clone())));
            }
        }
    }

    fn transact(&mut self, jobs: &mut Vec<Job>) -> Result<Vec<Reply>, Error> {
        if !self.connection.is_autocommit() {
            // What could not be undone when it failed.
            self.run_cached("ROLLBACK")?;
        }
        patiently(
            self.busy_timeout,
            || {
                jobs.retain(Job::is_wanted);
                !jobs.is_empty()
            },
            || self.run_cached("BEGIN IMMEDIATE"),
        )?;
        // Whoever has come while the lock was waited for.
        self.queue.add_decisions(jobs);
        jobs.retain(Job::is_wanted);
        let now = self.clock.now();
        let mut batch = Batch::new(&self.connection, &self.table);
        let replies = jobs.iter().map(|job| job.work.decide(&mut batch, now)).collect::<Result<_, _>>()?;
        let added = batch.write()?;
        self.run_cached("COMMIT")?;
        self.owed += 2 * added;
        Ok(replies)
    }

    /// Deletes rows that may go, some of them.
    fn sweep(&self, busy_timeout: Duration, is_wanted: impl FnMut() -> bool) -> Result<usize, Error> {
        let now = self.clock.now().as_micros().min(i64::MAX as u64) as i64;
        // A transaction by itself.
        let sweep = || self.connection.prepare_cached(&self.table.sweep)?.execute(params![now, SWEEP as i64]);
        patiently(busy_timeout, is_wanted, sweep)
    }

    fn run_cached(&self, statement: &str) -> Result<(), Error> {
        self.connection.prepare_cached(statement)?.execute([]).map(|_| ())
    }

    /// Leaves one file behind: the log is brought into it, and the last connection to close removes the log.
    fn end(self) {
        let (queue, thread) = self.reader;
        queue.close();
        // It cannot panic in a way that would matter here.
        let _ = thread.join();
        let _ = self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        drop(self.connection);
        drop(self.ended);
    }

    /// Forgets what is as good as new at `at`, and counts the rest.
    #[cfg(feature = "testing")]
    fn held(&self, at: tidegate_core::Timestamp) -> Result<usize, Error> {
        let any = tidegate_core::Quota::token_bucket(1, Duration::from_secs(1)).expect("a valid quota");
        patiently(
            self.busy_timeout,
            || true,
            || {
                let rows = self.connection.unchecked_transaction()?;
                let mut select = rows.prepare(&self.table.every)?;
                let mut held = 0;
                let mut every = select.query([])?;
                let mut gone: Vec<Vec<u8>> = Vec::new();
                while let Some(row) = every.next()? {
                    let value: Vec<u8> = row.get(1)?;
                    match crate::store::stored::decode(&value, &any) {
                        Ok((quota, state)) if state.is_new(&quota, at) => gone.push(row.get(0)?),
                        _ => held += 1,
                    }
                }
                drop(every);
                drop(select);
                for name in gone {
                    rows.execute(&self.table.delete, [name])?;
                }
                rows.commit()?;
                Ok(held)
            },
        )
    }
}
