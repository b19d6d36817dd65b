//! Decisions inside a transaction of the caller.

use rusqlite::{Connection, Transaction};
use tidegate_core::{Decision, JointDecision, Request, StoreError, StoreErrorKind};

use super::SqliteStore;
use super::batch::Batch;
use super::error::{file_name, transaction_error};
use super::row::StepTime;
use crate::store::Decider;
use crate::store::codec::JointRequest;

impl SqliteStore {
    /// Decides inside a transaction of the caller. Units are committed and rolled back with it.
    ///
    /// ```
    /// use rusqlite::{Connection, TransactionBehavior};
    /// use tidegate::sqlite::{SqliteStore, migration};
    /// use tidegate::{Limiter, Quota, minutes};
    ///
    /// # fn example(path: &str) -> Result<(), Box<dyn std::error::Error>> {
    /// let store = SqliteStore::open(path)?;
    /// let limiter =
    ///     Limiter::builder().limit("order", Quota::fixed_window(5, minutes(1))?).store(store.clone()).build()?;
    ///
    /// let mut connection = Connection::open(path)?;
    /// let mut transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    /// let decision = store.in_transaction(&mut transaction).apply(limiter.limit("order", "alice"))?;
    /// if decision.allowed() {
    ///     transaction.execute("INSERT INTO orders (who) VALUES ('alice')", [])?;
    ///     transaction.commit()?; // both, or neither
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// The transaction's database must have the table. Usually it is the file of this store; for another file there is
    /// [`migration`](super::migration). The store's own thread waits while the transaction holds the lock. So keep it
    /// short, and never await the limiter inside it.
    ///
    /// A transaction that reads before it writes may find that another connection has written in between. That is an
    /// error, and the caller must run the transaction again. A transaction that begins with `BEGIN IMMEDIATE` never
    /// gets this error.
    ///
    /// No timeout, breaker or failure policy applies here: the caller handles errors.
    pub fn in_transaction<'a>(&'a self, transaction: &'a mut Transaction<'_>) -> InTransaction<'a> {
        InTransaction { store: self, connection: transaction }
    }
}

/// A handle that decides calls inside a transaction of the caller. See [`SqliteStore::in_transaction`].
pub struct InTransaction<'a> {
    store: &'a SqliteStore,
    connection: &'a Connection,
}

impl InTransaction<'_> {
    /// Returns the time, or an error when the transaction has ended.
    fn time(&self) -> Result<StepTime, StoreError> {
        if self.connection.is_autocommit() {
            // After some errors, SQLite rolls back by itself. Any later write would be committed at once.
            let message = format!("sqlite: {}: the transaction has ended already", file_name(self.connection));
            return Err(StoreError::new(StoreErrorKind::Unavailable, message));
        }
        Ok(StepTime { now: self.store.inner.clock.now(), is_test: false })
    }

    fn batch(&self) -> Batch<'_> {
        Batch::new(self.connection, &self.store.inner.table)
    }

    fn to_store_error(&self, error: rusqlite::Error) -> StoreError {
        transaction_error(error, self.connection)
    }

    /// Writes all rows or none, even if the caller commits after an error.
    fn write_atomically(&self, batch: Batch<'_>) -> Result<usize, rusqlite::Error> {
        self.connection.execute_batch("SAVEPOINT tidegate_all")?;
        let written = batch.write();
        let end = if written.is_ok() { "" } else { "ROLLBACK TO tidegate_all; " };
        let ended = self.connection.execute_batch(&format!("{end}RELEASE tidegate_all"));
        // When SQLite has rolled back the transaction, the savepoint is gone.
        written.and_then(|added| ended.map(|()| added))
    }
}

impl Decider for InTransaction<'_> {
    async fn decide(&self, request: &Request<'_>) -> Result<Decision, StoreError> {
        let (time, row_key) = (self.time()?, self.store.inner.row_keys.encode(request));
        let mut batch = self.batch();
        let decided =
            batch.step(&row_key, request.quota, request.op, time).map_err(|error| self.to_store_error(error))?;
        self.store.record_added_rows(batch.write().map_err(|error| self.to_store_error(error))?);
        decided
    }

    async fn decide_all(&self, requests: &[Request<'_>]) -> Result<JointDecision, StoreError> {
        let time = self.time()?;
        let joint = JointRequest::new(requests, |request| self.store.inner.row_keys.encode(request))?;
        let mut batch = self.batch();
        let decided = batch.step_all(&joint.names, &joint.entries, time).map_err(|error| self.to_store_error(error))?;
        self.store.record_added_rows(self.write_atomically(batch).map_err(|error| self.to_store_error(error))?);
        decided
    }

    async fn decide_each(&self, requests: &[Request<'_>]) -> Vec<Result<Decision, StoreError>> {
        let mut decisions = Vec::with_capacity(requests.len());
        for request in requests {
            decisions.push(self.decide(request).await);
        }
        decisions
    }
}
