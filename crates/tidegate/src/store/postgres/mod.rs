//! The store on Postgres, which many processes share.
//!
//! A decision is one call of a function in the database, in one round trip. The function reads the database's time and
//! the key's row, steps, and writes. It returns the row it found, and [`step`](tidegate_core::step) makes the decision
//! here from that row, as for every other store. So the function only computes whether a cost fits and the state
//! afterwards. Every call checks that it agrees with the core.
//!
//! A key may have thousands of leases, so leases have a function of their own, which counts those in flight.

mod arguments;
mod builder;
mod client;
mod error;
mod pool;
mod queries;
mod reply;
mod schema;
mod sweep;
mod transaction;

use std::fmt;
use std::sync::Arc;

use deadpool_postgres::Object;
use tidegate_core::{Capabilities, Decision, JointDecision, Request, Store, StoreError};

use crate::store::codec::decide_by_key;
pub use builder::PostgresStoreBuilder;
use client::Client;
use pool::{ConnectionPool, PooledConnection};
use queries::Queries;
pub use schema::migration;
use sweep::SweepState;
pub use transaction::InTransaction;

/// The store on Postgres. Clones share the pool.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use tidegate::postgres::PostgresStore;
/// use tidegate::{Limiter, Quota, minutes};
///
/// let store = PostgresStore::connect("postgres://app@127.0.0.1/app").await?;
/// let limiter =
///     Limiter::builder().limit("login", Quota::fixed_window(5, minutes(1))?).store(store).build()?;
/// let decision = limiter.limit("login", "alice").await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct PostgresStore {
    pool: ConnectionPool,
    queries: Queries,
    prepares_statements: bool,
    owns_pool: bool,
    sweep_state: Arc<SweepState>,
}

impl PostgresStore {
    /// Returns a connection for one call.
    async fn connection(&self) -> Result<PooledConnection, StoreError> {
        self.pool.get().await.map(|connection| PooledConnection::new(connection, self.owns_pool))
    }

    fn client<'a>(&self, connection: &'a Object) -> Client<'a> {
        if self.prepares_statements { Client::Prepared(connection) } else { Client::Unprepared(connection) }
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Never shows the secret, nor an address, which may have a password.
        f.debug_struct("PostgresStore").field("table", &self.queries.statements.table).finish_non_exhaustive()
    }
}

impl Store for PostgresStore {
    fn capabilities(&self) -> Capabilities {
        // One call for each connection, and one that is ready when it ends.
        Capabilities::default().with_atomic_all(true).with_max_in_flight(2 * self.pool.max_size())
    }

    fn try_apply(&self, _: &Request<'_>) -> Option<Result<Decision, StoreError>> {
        None
    }

    async fn apply(&self, request: &Request<'_>) -> Result<Decision, StoreError> {
        let connection = self.connection().await?;
        let decision = self.queries.decide(self.client(&connection), request, None).await;
        connection.release([&decision]);
        self.record_decisions(1);
        decision
    }

    async fn apply_all(&self, requests: &[Request<'_>]) -> Result<JointDecision, StoreError> {
        if requests.is_empty() {
            return Ok(JointDecision::new(Vec::new()));
        }
        let connection = self.connection().await?;
        let joint = self.queries.decide_joint(self.client(&connection), requests, None).await;
        connection.release([&joint]);
        self.record_decisions(requests.len());
        joint
    }

    async fn apply_each(&self, requests: &[Request<'_>]) -> Vec<Result<Decision, StoreError>> {
        let mut connection = match self.connection().await {
            Ok(connection) => connection,
            Err(error) => return vec![Err(error); requests.len()],
        };
        connection.is_batch = true;
        // One connection sends the statements of all keys at once.
        let decisions =
            decide_by_key(requests, |index| self.queries.decide(self.client(&connection), &requests[index], None))
                .await;
        connection.release(&decisions);
        self.record_decisions(requests.len());
        decisions
    }

    async fn close(&self) {
        // A pool of the caller stays open.
        if self.owns_pool {
            self.pool.close();
        }
    }
}

#[cfg(feature = "testing")]
impl tidegate_core::TestableStore for PostgresStore {
    async fn apply_at(&self, request: &Request<'_>, at: tidegate_core::Timestamp) -> Result<Decision, StoreError> {
        let connection = self.connection().await?;
        let decision = self.queries.decide(self.client(&connection), request, Some(at)).await;
        connection.release([&decision]);
        decision
    }

    async fn apply_all_at(
        &self,
        requests: &[Request<'_>],
        at: tidegate_core::Timestamp,
    ) -> Result<JointDecision, StoreError> {
        if requests.is_empty() {
            return Ok(JointDecision::new(Vec::new()));
        }
        let connection = self.connection().await?;
        let joint = self.queries.decide_joint(self.client(&connection), requests, Some(at)).await;
        connection.release([&joint]);
        joint
    }

    async fn sweep_at(&self, at: tidegate_core::Timestamp) -> Option<usize> {
        // An error panics: a `None` would skip the cases of the suite that count keys.
        Some(sweep::sweep_at(self, at).await.expect("the database can be asked"))
    }
}
