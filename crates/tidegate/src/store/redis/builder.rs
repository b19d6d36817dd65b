//! Settings and connections of a [`RedisStore`].

use std::sync::Arc;
use std::time::Duration;

use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::io::tcp::TcpSettings;
use redis::io::tcp::socket2::TcpKeepalive;
use redis::{Client, IntoConnectionInfo};
use tidegate_core::StoreError;

use super::batcher::Batcher;
use super::error::store_error;
use super::failover::Failover;
use super::keys::KeyNames;
use super::{ClusterConnection, Connection, CrossSlot, RedisStore};
use crate::store::codec::micros;
use crate::store::colocation::Colocation;
use crate::store::secret::Secret;
use crate::telemetry;

/// The longest pause before the next attempt to reconnect.
const MAX_RECONNECT_DELAY: Duration = Duration::from_millis(500);

/// How long a server may leave sent data unacknowledged before the connection counts as dead.
#[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
const UNACKNOWLEDGED_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a connection is idle before the first keepalive probe.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);

/// The default of [`RedisStoreBuilder::coalesce_beyond`]: see `docs/decisions/0027-redis-coalescing.md`.
const DEFAULT_COALESCE_BEYOND: usize = 8;

/// A builder of a [`RedisStore`] with other settings than the defaults.
#[derive(Clone, Default)]
pub struct RedisStoreBuilder {
    key_names: KeyNames,
    min_ttl: Duration,
    cross_slot: CrossSlot,
    label: Option<String>,
    coalesce_beyond: Option<usize>,
}

impl RedisStoreBuilder {
    /// Keys are hashed with HMAC-SHA256 under this secret, so that no user id and no address can be read in Redis. Every
    /// process needs the same secret; with another one every key starts anew.
    #[must_use]
    pub fn hash_keys(mut self, with: impl AsRef<[u8]>) -> Self {
        self.key_names.secret = Some(Secret::new(with.as_ref()));
        self
    }

    /// Which keys live together in a cluster, by a hash tag in their names.
    #[must_use]
    pub fn colocation(mut self, colocation: Colocation) -> Self {
        self.key_names.colocation = colocation;
        self
    }

    /// Sets how a cluster treats an all-or-nothing call whose keys do not live together.
    #[must_use]
    pub fn cross_slot(mut self, cross_slot: CrossSlot) -> Self {
        self.cross_slot = cross_slot;
        self
    }

    /// Keys live at least that long after they were written. They live until they are as good as new, half as long again
    /// and a second, in any case.
    #[must_use]
    pub fn min_ttl(mut self, min_ttl: Duration) -> Self {
        self.min_ttl = min_ttl;
        self
    }

    /// Sets the store's name in metrics. Defaults to `redis`.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// Sets how many calls are in flight before further decisions share the next ones. Defaults to 8. Until then each
    /// decision is a call of its own and goes at once. With [`usize::MAX`] every decision is, always; 0 counts as 1.
    #[must_use]
    pub fn coalesce_beyond(mut self, calls: usize) -> Self {
        self.coalesce_beyond = Some(calls.max(1));
        self
    }

    /// A store over a connection that the caller has made. Share it with whatever else asks this server: it is one
    /// connection for any number of stores and limiters.
    pub fn over<C: Connection>(mut self, connection: C) -> RedisStore<C> {
        telemetry::describe_metrics();
        self.key_names.is_cluster = C::IS_CLUSTER;
        let calls = self.coalesce_beyond.unwrap_or(DEFAULT_COALESCE_BEYOND);
        RedisStore {
            connection,
            batcher: (calls < usize::MAX).then(|| Arc::new(Batcher::new(calls))),
            key_names: self.key_names,
            min_ttl: micros(self.min_ttl),
            cross_slot: self.cross_slot,
            label: self.label.as_deref().unwrap_or("redis").into(),
            has_slots: Arc::default(),
            failover: Failover::default(),
        }
    }

    /// A store on one server, over a connection of its own that comes back by itself. The server has to be there now.
    pub async fn connect(self, server: impl IntoConnectionInfo) -> Result<RedisStore, StoreError> {
        let server = server.into_connection_info().map_err(store_error)?.set_tcp_settings(tcp_settings());
        let client = Client::open(server).map_err(store_error)?;
        Ok(self.over(ConnectionManager::new_with_config(client, manager_config()).await.map_err(store_error)?))
    }

    /// A store on a cluster, some of whose nodes are named; see [`ClusterConnection::connect`].
    pub async fn connect_cluster<T: IntoConnectionInfo>(
        self,
        nodes: impl IntoIterator<Item = T>,
    ) -> Result<RedisStore<ClusterConnection>, StoreError> {
        Ok(self.over(ClusterConnection::connect(nodes).await.map_err(store_error)?))
    }
}

/// The settings of a connection that comes back by itself. A call is not repeated, because it may have been applied. A timeout
/// around the store bounds it: the client's own timeout would cut short a longer one.
pub(super) fn manager_config() -> ConnectionManagerConfig {
    ConnectionManagerConfig::new().set_max_delay(MAX_RECONNECT_DELAY).set_response_timeout(None)
}

/// A request is sent at once, however small. And a server that is cut off without a word is noticed: requests are given
/// up long before the client would see that nothing answers, and only a connection that is found dead is made anew. Of one
/// that lies idle, too: what is between may forget it, and the next request would be lost.
pub(super) fn tcp_settings() -> TcpSettings {
    let settings =
        TcpSettings::default().set_nodelay(true).set_keepalive(TcpKeepalive::new().with_time(KEEPALIVE_IDLE));
    #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
    let settings = settings.set_user_timeout(UNACKNOWLEDGED_TIMEOUT);
    settings
}

impl RedisStore {
    /// A store on one server with the defaults.
    pub async fn connect(server: impl IntoConnectionInfo) -> Result<Self, StoreError> {
        Self::builder().connect(server).await
    }

    /// A builder of a store with other settings.
    pub fn builder() -> RedisStoreBuilder {
        RedisStoreBuilder::default()
    }
}
