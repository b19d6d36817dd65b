//! The builder of a [`PostgresStore`].

use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod};
use tidegate_core::{StoreError, StoreErrorKind};
use tokio_postgres::config::TargetSessionAttrs;
use tokio_postgres::{Config, NoTls};

use super::PostgresStore;
use super::error::pool_error;
use super::pool::ConnectionPool;
use super::queries::Queries;
use super::schema::Statements;
use crate::store::secret::Secret;
use crate::store::table::{RowKeyEncoder, TableName};

/// The default size of a pool that the store creates.
const DEFAULT_CONNECTIONS: usize = 8;

/// The default of the connect timeout, which the URL may set.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long sent data may stay unacknowledged before the connection counts as dead.
const TCP_USER_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a connection is idle before a keepalive probe. Without probes, a firewall may forget the connection.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);

/// A builder of a [`PostgresStore`] with other settings than the defaults.
#[derive(Clone, Default)]
pub struct PostgresStoreBuilder {
    table: TableName,
    row_keys: RowKeyEncoder,
    max_connections: Option<usize>,
    prepares_statements: bool,
}

impl PostgresStore {
    /// Connects to the database at a URL, with the table `tidegate`, which is created if it is missing. The database
    /// must be reachable.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        Self::builder().connect(url).await
    }

    /// Returns a builder, for a store with other settings than the defaults.
    pub fn builder() -> PostgresStoreBuilder {
        PostgresStoreBuilder::default()
    }
}

impl PostgresStoreBuilder {
    /// Sets the name of the table. Defaults to `tidegate`. It consists of letters, digits and underscores, and may begin with
    /// a schema and a dot.
    pub fn table(mut self, name: &str) -> Result<Self, StoreError> {
        self.table = TableName::new(name)?;
        Ok(self)
    }

    /// Hashes keys with HMAC-SHA256 under this secret, so that the table shows no user id and no address. Every process
    /// needs the same secret. With another secret, every key is reset.
    #[must_use]
    pub fn hash_keys(mut self, secret: impl AsRef<[u8]>) -> Self {
        self.row_keys.secret = Some(Secret::new(secret.as_ref()));
        self
    }

    /// Sets the maximum number of connections of [`PostgresStoreBuilder::connect`]. Defaults to 8. They are opened on
    /// demand. With several, they open in the background: a connection whose call gave up serves the next call. With
    /// only one, a call must allow the time to connect.
    #[must_use]
    pub fn connections(mut self, connections: usize) -> Self {
        self.max_connections = Some(connections);
        self
    }

    /// Prepares statements once for each connection, which saves the database a part of its work. Defaults to sending
    /// each statement in one piece, which works everywhere.
    ///
    /// Do not use it with a pooler in transaction mode that does not support prepared statements, such as PgBouncer
    /// before 1.21. There, a statement can reach a connection that has not prepared it.
    #[must_use]
    pub fn prepared(mut self) -> Self {
        self.prepares_statements = true;
        self
    }

    /// Creates a store over a pool of the caller, for example with TLS. The rest of the program can share the pool: the
    /// store leaves nothing on its connections except prepared statements. The store needs tokio's timer
    /// (`enable_time`) even if the pool does not.
    pub async fn over(self, pool: Pool) -> Result<PostgresStore, StoreError> {
        self.build(pool, false).await
    }

    async fn build(self, pool: Pool, owns_pool: bool) -> Result<PostgresStore, StoreError> {
        let queries = Queries { row_keys: self.row_keys, statements: Arc::new(Statements::new(self.table)) };
        queries.statements.ensure_schema(&pool.get().await.map_err(pool_error)?).await?;
        Ok(PostgresStore {
            pool: ConnectionPool::new(pool),
            queries,
            prepares_statements: self.prepares_statements,
            owns_pool,
            sweep_state: Arc::default(),
        })
    }

    /// Connects to the database at a URL, over connections of its own without TLS. For TLS, pass a pool to
    /// [`Self::over`].
    pub async fn connect(self, url: &str) -> Result<PostgresStore, StoreError> {
        let mut config: Config = url.parse().map_err(|error: tokio_postgres::Error| {
            // Never shows the address, which may have a password.
            StoreError::caused_by(StoreErrorKind::Unsupported, "postgres: the address is not understood", error)
        })?;
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIMEOUT);
        }
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(TCP_USER_TIMEOUT);
        }
        // The URL has not set it.
        if config.get_keepalives_idle() == Config::new().get_keepalives_idle() {
            config.keepalives_idle(KEEPALIVE_IDLE);
        }
        // A name may resolve first to a server that has become a standby.
        if config.get_target_session_attrs() == TargetSessionAttrs::Any {
            config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        let manager = Manager::from_config(config, NoTls, ManagerConfig { recycling_method: RecyclingMethod::Fast });
        let size = self.max_connections.unwrap_or(DEFAULT_CONNECTIONS).max(1);
        let pool = Pool::builder(manager)
            .max_size(size)
            .build()
            .map_err(|error| StoreError::caused_by(StoreErrorKind::Unsupported, format!("postgres: {error}"), error))?;
        self.build(pool, true).await
    }
}
