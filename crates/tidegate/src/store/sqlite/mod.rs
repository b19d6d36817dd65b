//! The store in an SQLite file: for one process, or a few on one machine, whose state survives restarts.
//!
//! A thread of the store writes. It takes all waiting calls, decides them in one transaction, and answers after the
//! commit. So a commit costs each call little, and no thread that serves requests waits for the file. A second thread
//! answers checks on a read-only connection, which never waits for a writer in SQLite's WAL mode.
//!
//! As for every other store, [`step`](tidegate_core::step) makes the decision, between reading a row and writing it.

mod autocommit;
mod batch;
mod builder;
mod busy_retry;
mod error;
mod file;
mod job;
mod queue;
mod reader;
mod row;
mod schema;
mod transaction;
mod wal;
mod writer;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use tidegate_core::{Capabilities, Decision, JointDecision, Op, Request, Store, StoreError, Timestamp};
use tokio::sync::{oneshot, watch};

use crate::clock::Clock;
use crate::store::codec::JointRequest;
use crate::store::table::RowKeyEncoder;
pub use builder::{SqliteStoreBuilder, Synchronous};
use job::{Command, Job, JobOutput, JobResult, JointStep, Step};
use queue::{JobQueue, MAX_BATCH_STEPS};
use schema::TableSchema;
pub use schema::migration;
pub use transaction::InTransaction;

/// The store in an SQLite file. Clones share its two threads, which end with the last of them.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use tidegate::sqlite::SqliteStore;
/// use tidegate::{Limiter, Quota, minutes};
///
/// let store = SqliteStore::open("limits.db")?;
/// let limiter =
///     Limiter::builder().limit("login", Quota::fixed_window(5, minutes(1))?).store(store).build()?;
/// let decision = limiter.limit("login", "alice").await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct SqliteStore {
    inner: Arc<Inner>,
}

struct Inner {
    row_keys: RowKeyEncoder,
    table: Arc<TableSchema>,
    clock: Arc<dyn Clock>,
    writer_queue: Arc<JobQueue>,
    reader_queue: Arc<JobQueue>,
    /// Its sender is dropped when both threads have ended.
    ended_receiver: watch::Receiver<()>,
    path: PathBuf,
}

impl Inner {
    /// Closes both queues. The threads end when they have served the jobs in them.
    fn close(&self) {
        self.writer_queue.close();
        self.reader_queue.close();
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.close();
    }
}

impl SqliteStore {
    /// Deletes all rows that are as good as new, and returns their number. It deletes about a hundred at a time, with
    /// decisions in between. Calls sweep by themselves: for every added row, they look for two that can go. So this is
    /// only for freeing space at once, such as after a flood of keys.
    pub async fn sweep(&self) -> Result<u64, StoreError> {
        let mut swept = 0;
        loop {
            match self.submit(&self.inner.writer_queue, Command::Sweep).await?.into_count() {
                0 => return Ok(swept),
                count => swept += count as u64,
            }
        }
    }

    /// Reports rows that a transaction of the caller has added to the writing thread, which sweeps as many.
    fn record_added_rows(&self, rows: usize) {
        if rows > 0 {
            let (result_sender, _) = oneshot::channel();
            // A store that is closed or overloaded sweeps another time.
            let _ = self.inner.writer_queue.push(Job { command: Command::RecordAddedRows(rows), result_sender });
        }
    }

    async fn decide(&self, request: &Request<'_>, test_time: Option<Timestamp>) -> Result<Decision, StoreError> {
        let queue = self.queue_for(std::slice::from_ref(request));
        Ok(self.submit(queue, Command::Step(self.step(request, test_time))).await?.into_decision())
    }

    async fn decide_all(
        &self,
        requests: &[Request<'_>],
        test_time: Option<Timestamp>,
    ) -> Result<JointDecision, StoreError> {
        let JointRequest { names: row_keys, entries } =
            JointRequest::new(requests, |request| self.inner.row_keys.encode(request))?;
        if row_keys.is_empty() {
            return Ok(JointDecision::new(Vec::new()));
        }
        let entries = entries.iter().map(|entry| (*entry.quota, entry.cost, entry.state)).collect();
        let joint = JointStep { row_keys, entries, test_time };
        Ok(self.submit(&self.inner.writer_queue, Command::JointStep(joint)).await?.into_joint_decision())
    }

    fn step(&self, request: &Request<'_>, test_time: Option<Timestamp>) -> Step {
        Step { row_key: self.inner.row_keys.encode(request), quota: *request.quota, op: request.op, test_time }
    }

    /// Returns the queue for these requests: the reader's when all of them are checks, and the writer's otherwise.
    fn queue_for(&self, requests: &[Request<'_>]) -> &JobQueue {
        let only_checks = requests.iter().all(|request| matches!(request.op, Op::Check(_)));
        if only_checks { &self.inner.reader_queue } else { &self.inner.writer_queue }
    }

    /// Adds a job to a queue, and waits for its result.
    async fn submit(&self, queue: &JobQueue, command: Command) -> JobResult {
        let (result_sender, result_receiver) = oneshot::channel();
        queue.push(Job { command, result_sender })?;
        result_receiver.await.unwrap_or_else(|_| Err(error::closed_error()))
    }
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Never the secret.
        f.debug_struct("SqliteStore").field("path", &self.inner.path).finish_non_exhaustive()
    }
}

impl Store for SqliteStore {
    fn capabilities(&self) -> Capabilities {
        Capabilities::default().with_atomic_all(true).with_max_in_flight(MAX_BATCH_STEPS as u32)
    }

    fn try_apply(&self, _: &Request<'_>) -> Option<Result<Decision, StoreError>> {
        None
    }

    async fn apply(&self, request: &Request<'_>) -> Result<Decision, StoreError> {
        self.decide(request, None).await
    }

    async fn apply_all(&self, requests: &[Request<'_>]) -> Result<JointDecision, StoreError> {
        self.decide_all(requests, None).await
    }

    async fn apply_each(&self, requests: &[Request<'_>]) -> Vec<Result<Decision, StoreError>> {
        let (queue, mut decisions) = (self.queue_for(requests), Vec::with_capacity(requests.len()));
        // A long list takes several jobs, so that it does not lock the file for long.
        for chunk in requests.chunks(MAX_BATCH_STEPS) {
            let steps = chunk.iter().map(|request| self.step(request, None)).collect();
            match self.submit(queue, Command::Steps(steps)).await.map(JobOutput::into_decisions) {
                Ok(decided) => decisions.extend(decided),
                Err(error) => decisions.extend(chunk.iter().map(|_| Err(error.clone()))),
            }
        }
        decisions
    }

    /// Ends both threads when they have served all waiting jobs, and moves the log into the file. Later calls are
    /// errors.
    async fn close(&self) {
        self.inner.close();
        // An error means that the sender was dropped: the threads have ended.
        while self.inner.ended_receiver.clone().changed().await.is_ok() {}
    }
}

#[cfg(feature = "testing")]
impl tidegate_core::TestableStore for SqliteStore {
    async fn apply_at(&self, request: &Request<'_>, at: Timestamp) -> Result<Decision, StoreError> {
        self.decide(request, Some(at)).await
    }

    async fn apply_all_at(&self, requests: &[Request<'_>], at: Timestamp) -> Result<JointDecision, StoreError> {
        self.decide_all(requests, Some(at)).await
    }

    async fn sweep_at(&self, at: Timestamp) -> Option<usize> {
        // An error panics: a `None` would skip the cases of the suite that count keys.
        let count = self.submit(&self.inner.writer_queue, Command::SweepAt(at)).await;
        Some(count.expect("the rows can be counted").into_count())
    }
}
