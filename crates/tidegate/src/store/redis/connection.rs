//! Connections that a store can use.

use redis::aio::{ConnectionLike, ConnectionManager, MultiplexedConnection};
use redis::cluster_async::ClusterConnection;

/// A connection that many callers share. Clones are the same connection.
pub trait Connection: ConnectionLike + Clone + Send + Sync + sealed::Sealed + 'static {
    /// Whether it is to a cluster, where a key's name decides which node it is on.
    const IS_CLUSTER: bool;

    /// Whether it reconnects by itself once the server has closed it.
    const RECONNECTS: bool;
}

impl Connection for MultiplexedConnection {
    const IS_CLUSTER: bool = false;
    const RECONNECTS: bool = false;
}

impl Connection for ConnectionManager {
    const IS_CLUSTER: bool = false;
    const RECONNECTS: bool = true;
}

impl Connection for ClusterConnection {
    const IS_CLUSTER: bool = true;
    // It finds the other nodes by itself.
    const RECONNECTS: bool = false;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for redis::aio::MultiplexedConnection {}
    impl Sealed for redis::aio::ConnectionManager {}
    impl Sealed for redis::cluster_async::ClusterConnection {}
}
