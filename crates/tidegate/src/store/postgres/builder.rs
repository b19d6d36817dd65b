//! How a [`PostgresStore`] is made.

use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod};
use tidegate_core::{StoreError, StoreErrorKind};
use tokio_postgres::config::TargetSessionAttrs;
use tokio_postgres::{Config, NoTls};

use super::connections::Connections;
use super::error::pool_error;
use super::schema::Statements;
use super::{Asks, PostgresStore};
use crate::store::secret::Secret;
use crate::store::table::{Rows, TableName};

/// How many connections a store of its own makes at most.
const CONNECTIONS: usize = 8;

/// How long a connection may take to be made, unless the address says otherwise.
const CONNECT: Duration = Duration::from_secs(5);

/// How long a server may leave what was sent unacknowledged before the connection counts as dead.
const CUT_OFF: Duration = Duration::from_secs(2);

/// How long a connection lies idle before the server is asked whether it is still there: what is between may forget it.
const IDLE: Duration = Duration::from_secs(30);

/// How a [`PostgresStore`] with other settings is made.
#[derive(Clone, Default)]
pub struct PostgresStoreBuilder {
    table: TableName,
    rows: Rows,
    connections: Option<usize>,
    prepared: bool,
}

impl PostgresStore {
    /// A store on the database at a URL, in the table `tidegate`, which is made when it is missing. The database has to be
    /// there now.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        Self::builder().connect(url).await
    }

    /// How one with other settings is made.
    pub fn builder() -> PostgresStoreBuilder {
        PostgresStoreBuilder::default()
    }
}

impl PostgresStoreBuilder {
    /// The table's name: `tidegate` unless said otherwise. Letters, digits and underscores, and a schema with a dot before
    /// it if need be.
    pub fn table(mut self, name: &str) -> Result<Self, StoreError> {
        self.table = TableName::new(name)?;
        Ok(self)
    }

    /// Keys are hashed with HMAC-SHA256 under this secret, so that no user id and no address can be read in the table.
    /// Every process needs the same secret; with another one everybody starts anew.
    #[must_use]
    pub fn hash_keys(mut self, with: impl AsRef<[u8]>) -> Self {
        self.rows.secret = Some(Secret::new(with.as_ref()));
        self
    }

    /// How many connections [`PostgresStoreBuilder::connect`] makes at most: 8 unless said otherwise. They are made when
    /// they are needed, beside the call if there are several: the connection of a call that gives up is there for the next.
    /// With one alone, a call needs as much time as connecting takes.
    #[must_use]
    pub fn connections(mut self, connections: usize) -> Self {
        self.connections = Some(connections);
        self
    }

    /// Statements are prepared once for each connection, which saves the database a part of its work with every decision.
    /// Not for a pooler in transaction mode that does not know of prepared statements, as PgBouncer before 1.21: there a
    /// statement meets a connection on which it was never prepared. Without this everything is sent in one piece, which
    /// works everywhere.
    #[must_use]
    pub fn prepared(mut self) -> Self {
        self.prepared = true;
        self
    }

    /// A store over a pool that the caller has made, with TLS or whatever else it needs. Share it with the rest of the
    /// program: nothing is left behind on its connections but statements, if they are to be prepared. The store needs tokio's
    /// timer (`enable_time`) even where the pool does not.
    pub async fn over(self, pool: Pool) -> Result<PostgresStore, StoreError> {
        self.build(pool, false).await
    }

    async fn build(self, pool: Pool, owns_pool: bool) -> Result<PostgresStore, StoreError> {
        let asks = Asks { rows: self.rows, statements: Arc::new(Statements::new(self.table)) };
        asks.statements.prepare(&pool.get().await.map_err(pool_error)?).await?;
        let connections = Connections::of(pool);
        Ok(PostgresStore { connections, asks, prepared: self.prepared, owns_pool, sweeping: Arc::default() })
    }

    /// A store on the database at a URL, over connections of its own, without TLS; for TLS bring a pool.
    pub async fn connect(self, url: &str) -> Result<PostgresStore, StoreError> {
        let mut config: Config = url.parse().map_err(|error: tokio_postgres::Error| {
            // Never the address itself, which may carry a password.
            StoreError::caused_by(StoreErrorKind::Unsupported, "postgres: the address is not understood", error)
        })?;
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT);
        }
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(CUT_OFF);
        }
        // Nobody has said otherwise, or the same.
        if config.get_keepalives_idle() == Config::new().get_keepalives_idle() {
            config.keepalives_idle(IDLE);
        }
        // A server that has become a standby may be the first that a name leads to.
        if config.get_target_session_attrs() == TargetSessionAttrs::Any {
            config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        let manager = Manager::from_config(config, NoTls, ManagerConfig { recycling_method: RecyclingMethod::Fast });
        let size = self.connections.unwrap_or(CONNECTIONS).max(1);
        let pool = Pool::builder(manager)
            .max_size(size)
            .build()
            .map_err(|error| StoreError::caused_by(StoreErrorKind::Unsupported, format!("postgres: {error}"), error))?;
        self.build(pool, true).await
    }
}
