//! The connections a store can be made of.

use redis::aio::{ConnectionLike, ConnectionManager, MultiplexedConnection};
use redis::cluster_async::ClusterConnection;

/// A connection that many callers share: clones are the same connection.
pub trait Connection: ConnectionLike + Clone + Send + Sync + sealed::Sealed + 'static {
    /// Whether it is to a cluster, where a key's name decides which node it is on.
    const CLUSTER: bool;

    /// Whether it is made anew once the server has ended it.
    const COMES_BACK: bool;
}

impl Connection for MultiplexedConnection {
    const CLUSTER: bool = false;
    const COMES_BACK: bool = false;
}

impl Connection for ConnectionManager {
    const CLUSTER: bool = false;
    const COMES_BACK: bool = true;
}

impl Connection for ClusterConnection {
    const CLUSTER: bool = true;
    // It finds the others by itself.
    const COMES_BACK: bool = false;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for redis::aio::MultiplexedConnection {}
    impl Sealed for redis::aio::ConnectionManager {}
    impl Sealed for redis::cluster_async::ClusterConnection {}
}
