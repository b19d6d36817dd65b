//! The store on Postgres: many processes, one truth, in the database that is there anyway.
//!
//! A decision is one call of a function in the database, in one round trip. The function reads the database's time and
//! the key's row, steps, and writes; it answers with what it found, from which the decision is worked out here by
//! [`step`](tidegate_core::step), the same as for every other store. So the function only decides whether something fits
//! and what is left afterwards, and whether it agrees with the core is checked with every call. Leases, of which a key may
//! have thousands, have a function of their own, which says what is in flight.

mod all;
mod arguments;
mod builder;
mod client;
mod connections;
mod error;
mod found;
mod leases;
mod lent;
mod schema;
mod sweep;
mod transaction;

use std::fmt;
use std::sync::Arc;

use deadpool_postgres::Object;
use tidegate_core::{
    Algorithm, Capabilities, Decision, JointDecision, Op, Request, State, Store, StoreError, Timestamp, step,
};
use tokio_postgres::types::Type;

use crate::store::stored::{ATTEMPTS, agreed, changing, each};
use crate::store::table::Rows;
use arguments::{Arguments, signed};
pub use builder::PostgresStoreBuilder;
use client::Client;
use connections::Connections;
use found::{Carried, Done, Found};
use lent::Lent;
use schema::Statements;
pub use schema::migration;
use sweep::Sweeping;
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
    connections: Connections,
    asks: Asks,
    prepared: bool,
    owns_pool: bool,
    sweeping: Arc<Sweeping>,
}

/// What is asked, and of which table: everything but the connection.
#[derive(Clone)]
struct Asks {
    rows: Rows,
    statements: Arc<Statements>,
}

impl PostgresStore {
    /// A connection for one call.
    async fn connection(&self) -> Result<Lent, StoreError> {
        self.connections.get().await.map(|connection| Lent::new(connection, self.owns_pool))
    }

    fn client<'a>(&self, connection: &'a Object) -> Client<'a> {
        if self.prepared { Client::Prepared(connection) } else { Client::Pooled(connection) }
    }
}

impl Asks {
    /// One operation on one key.
    async fn decide(
        &self,
        client: Client<'_>,
        request: &Request<'_>,
        at: Option<Timestamp>,
    ) -> Result<Decision, StoreError> {
        let name = self.rows.name(request);
        match request.op {
            Op::Reset => self.forget(client, &name, request).await,
            _ if request.quota.algorithm() == Algorithm::Concurrency => {
                self.decide_leases(client, &name, request, at).await
            }
            Op::Check(_) if !arguments::is_log(request.quota) => self.look(client, &name, request, at).await,
            _ => self.step(client, &name, request, at).await,
        }
    }

    async fn forget(&self, client: Client<'_>, name: &[u8], request: &Request<'_>) -> Result<Decision, StoreError> {
        client.row(&self.statements.forget, &[(&name, Type::BYTEA)]).await?;
        // A key that is forgotten is as good as new, whatever the time.
        Ok(step(request.quota, &mut State::New, Op::Reset, Timestamp::EPOCH).decision)
    }

    async fn look(
        &self,
        client: Client<'_>,
        name: &[u8],
        request: &Request<'_>,
        at: Option<Timestamp>,
    ) -> Result<Decision, StoreError> {
        let row = client.row(&self.statements.look, &[(&name, Type::BYTEA)]).await?;
        let found = Found::look(&row)?;
        let now = at.unwrap_or(found.now);
        let mut state = found.state(request.quota, now)?;
        Ok(step(request.quota, &mut state, request.op, now).decision)
    }

    async fn step(
        &self,
        client: Client<'_>,
        name: &[u8],
        request: &Request<'_>,
        at: Option<Timestamp>,
    ) -> Result<Decision, StoreError> {
        let Request { quota, op, .. } = *request;
        let asked = Arguments::one(quota, op);
        let [n1, n2, n3, n4, how] = &asked.numbers;
        let given = at.map(|at| signed(at.as_micros()));
        let mut carried = Carried::default();
        for _ in 0..ATTEMPTS {
            let row = client
                .row(
                    &self.statements.step,
                    &[
                        (&name, Type::BYTEA),
                        (&asked.quota, Type::BYTEA),
                        (&asked.units, Type::INT8),
                        (&asked.room, Type::INT8),
                        (n1, Type::INT8),
                        (n2, Type::INT8),
                        (n3, Type::INT8),
                        (n4, Type::INT8),
                        (how, Type::INT8),
                        (&given, Type::INT8),
                        (&carried.quota, Type::BYTEA),
                        (&carried.state, Type::INT8_ARRAY),
                        (&carried.instead, Type::INT8_ARRAY),
                    ],
                )
                .await?;
            let (found, done) = Found::step(&row, &asked)?;
            let mut state = found.state(quota, found.now)?;
            if done == Done::Foreign && !matches!(op, Op::Check(_)) {
                carried = found.carried(&state);
                continue;
            }
            let outcome = step(quota, &mut state, op, found.now);
            return agreed(outcome.changed, matches!(done, Done::Written | Done::AtOnce)).map(|()| outcome.decision);
        }
        Err(changing())
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Never the secret, and no address, which may carry a password.
        f.debug_struct("PostgresStore").field("table", &self.asks.statements.table).finish_non_exhaustive()
    }
}

impl Store for PostgresStore {
    fn capabilities(&self) -> Capabilities {
        Capabilities::default().with_atomic_all(true)
    }

    fn try_apply(&self, _: &Request<'_>) -> Option<Result<Decision, StoreError>> {
        None
    }

    async fn apply(&self, request: &Request<'_>) -> Result<Decision, StoreError> {
        let connection = self.connection().await?;
        let decision = self.asks.decide(self.client(&connection), request, None).await;
        connection.back([&decision]);
        self.sweep_sometimes(1);
        decision
    }

    async fn apply_all(&self, requests: &[Request<'_>]) -> Result<JointDecision, StoreError> {
        if requests.is_empty() {
            return Ok(JointDecision::new(Vec::new()));
        }
        let connection = self.connection().await?;
        let all = self.asks.decide_all(self.client(&connection), requests, None).await;
        connection.back([&all]);
        self.sweep_sometimes(requests.len());
        all
    }

    async fn apply_each(&self, requests: &[Request<'_>]) -> Vec<Result<Decision, StoreError>> {
        let mut connection = match self.connection().await {
            Ok(connection) => connection,
            Err(error) => return vec![Err(error); requests.len()],
        };
        connection.is_batch = true;
        // On one connection, where what is asked at once is sent at once.
        let decisions =
            each(requests, |index| self.asks.decide(self.client(&connection), &requests[index], None)).await;
        connection.back(&decisions);
        self.sweep_sometimes(requests.len());
        decisions
    }

    async fn close(&self) {
        // A pool that the caller has made is the caller's to close.
        if self.owns_pool {
            self.connections.close();
        }
    }
}

#[cfg(feature = "testing")]
impl tidegate_core::Testing for PostgresStore {
    async fn apply_at(&self, request: &Request<'_>, at: Timestamp) -> Result<Decision, StoreError> {
        let connection = self.connection().await?;
        let decision = self.asks.decide(self.client(&connection), request, Some(at)).await;
        connection.back([&decision]);
        decision
    }

    async fn apply_all_at(&self, requests: &[Request<'_>], at: Timestamp) -> Result<JointDecision, StoreError> {
        if requests.is_empty() {
            return Ok(JointDecision::new(Vec::new()));
        }
        let connection = self.connection().await?;
        let all = self.asks.decide_all(self.client(&connection), requests, Some(at)).await;
        connection.back([&all]);
        all
    }

    async fn held_at(&self, at: Timestamp) -> Option<usize> {
        // It can tell: not to would let those cases of the suite pass that count.
        Some(sweep::held_at(self, at).await.expect("the database can be asked"))
    }
}
