//! The store in an SQLite file: for one process, or a few on one machine, that must remember.
//!
//! A thread of the store's own writes. It takes whoever waits, decides all of them in one transaction, and answers when
//! that is committed: so a commit costs each of them little, and none waits on the file in a thread that serves others.
//! A second thread answers looks from a connection that only reads, which in SQLite's WAL mode waits for nobody.
//!
//! The decisions are worked out by [`step`](tidegate_core::step) between reading a row and writing it, the same as for
//! every other store.

mod alone;
mod batch;
mod builder;
mod error;
mod file;
mod job;
mod log;
mod patience;
mod queue;
mod reader;
mod row;
mod schema;
mod transaction;
mod writer;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use tidegate_core::{Capabilities, Decision, JointDecision, Op, Request, Store, StoreError, Timestamp};
use tokio::sync::{oneshot, watch};

use crate::clock::Clock;
use crate::store::stored::Asked;
use crate::store::table::Rows;
pub use builder::{SqliteStoreBuilder, Synchronous};
use job::{Answer, Job, JointWork, Reply, Step, Work};
use queue::{MOST_TOGETHER, Queue};
use schema::Table;
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
    rows: Rows,
    table: Arc<Table>,
    clock: Arc<dyn Clock>,
    writer: Arc<Queue>,
    reader: Arc<Queue>,
    /// Says so when the threads are gone.
    has_ended: watch::Receiver<()>,
    path: PathBuf,
}

impl Inner {
    /// Lets nothing more in. The threads end when they have served what is there.
    fn close(&self) {
        self.writer.close();
        self.reader.close();
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.close();
    }
}

impl SqliteStore {
    /// Deletes all rows that are as good as new, a hundred or so at a time with decisions in between, and says how many
    /// they were. The calls do the same by and by: with every row that is added two are looked for that can go. So this
    /// is for whoever wants the space at once, such as after a flood of keys.
    pub async fn sweep(&self) -> Result<u64, StoreError> {
        let mut swept = 0;
        loop {
            match self.ask(&self.inner.writer, Work::Sweep).await?.count() {
                0 => return Ok(swept),
                some => swept += some as u64,
            }
        }
    }

    /// Lets the thread that writes know that rows were added beside it, so that as many are swept.
    fn added(&self, rows: usize) {
        if rows > 0 {
            let (answer, _) = oneshot::channel();
            // A store that is closed, or has more to do than it can, sweeps another time.
            let _ = self.inner.writer.push(Job { work: Work::Added(rows), answer });
        }
    }

    async fn decide(&self, request: &Request<'_>, at: Option<Timestamp>) -> Result<Decision, StoreError> {
        let queue = self.queue(std::slice::from_ref(request));
        Ok(self.ask(queue, Work::One(self.step(request, at))).await?.one())
    }

    async fn decide_all(&self, requests: &[Request<'_>], at: Option<Timestamp>) -> Result<JointDecision, StoreError> {
        let Asked { names, entries } = Asked::new(requests, |request| self.inner.rows.name(request))?;
        if names.is_empty() {
            return Ok(JointDecision::new(Vec::new()));
        }
        let entries = entries.iter().map(|entry| (*entry.quota, entry.cost, entry.state)).collect();
        let work = JointWork { names, entries, at };
        Ok(self.ask(&self.inner.writer, Work::All(work)).await?.all())
    }

    fn step(&self, request: &Request<'_>, at: Option<Timestamp>) -> Step {
        Step { name: self.inner.rows.name(request), quota: *request.quota, op: request.op, at }
    }

    /// Whom these are asked of: looks alone need nobody who writes.
    fn queue(&self, requests: &[Request<'_>]) -> &Queue {
        let looks = requests.iter().all(|request| matches!(request.op, Op::Check(_)));
        if looks { &self.inner.reader } else { &self.inner.writer }
    }

    async fn ask(&self, queue: &Queue, work: Work) -> Reply {
        let (answer, answered) = oneshot::channel();
        queue.push(Job { work, answer })?;
        answered.await.unwrap_or_else(|_| Err(error::closed()))
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
        Capabilities::default().with_atomic_all(true)
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
        let (queue, mut decisions) = (self.queue(requests), Vec::with_capacity(requests.len()));
        // Not as one, so that a long list does not keep others from the file for long.
        for some in requests.chunks(MOST_TOGETHER) {
            let steps = some.iter().map(|request| self.step(request, None)).collect();
            match self.ask(queue, Work::Each(steps)).await.map(Answer::each) {
                Ok(decided) => decisions.extend(decided),
                Err(error) => decisions.extend(some.iter().map(|_| Err(error.clone()))),
            }
        }
        decisions
    }

    /// Ends both threads when they have served what waits, and brings the log into the file. Calls from then on are
    /// errors.
    async fn close(&self) {
        self.inner.close();
        // An error says that nobody can send any more: the threads are gone.
        while self.inner.has_ended.clone().changed().await.is_ok() {}
    }
}

#[cfg(feature = "testing")]
impl tidegate_core::Testing for SqliteStore {
    async fn apply_at(&self, request: &Request<'_>, at: Timestamp) -> Result<Decision, StoreError> {
        self.decide(request, Some(at)).await
    }

    async fn apply_all_at(&self, requests: &[Request<'_>], at: Timestamp) -> Result<JointDecision, StoreError> {
        self.decide_all(requests, Some(at)).await
    }

    async fn held_at(&self, at: Timestamp) -> Option<usize> {
        // It can tell: not to would let those cases of the suite pass that count.
        Some(self.ask(&self.inner.writer, Work::Held(at)).await.expect("the file can be asked").count())
    }
}
