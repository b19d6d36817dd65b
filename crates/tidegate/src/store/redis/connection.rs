//! Connections that a store can use.

use std::future::Future;

use redis::aio::{ConnectionManager, MultiplexedConnection};
use redis::{Cmd, RedisResult, Value};

use super::cluster::ClusterConnection;

/// A connection that many callers share. Clones are the same connection.
pub trait Connection: Clone + Send + Sync + sealed::Sealed + 'static {
    /// Whether it is to a cluster, where a key's name decides which node it is on.
    const IS_CLUSTER: bool;

    /// Whether it reconnects by itself once the server has closed it.
    const RECONNECTS: bool;

    /// Sends a command about keys that live together, of which `key` is one, and returns the reply.
    fn send(&self, key: &str, command: &Cmd) -> impl Future<Output = RedisResult<Value>> + Send;
}

impl Connection for MultiplexedConnection {
    const IS_CLUSTER: bool = false;
    const RECONNECTS: bool = false;

    async fn send(&self, _: &str, command: &Cmd) -> RedisResult<Value> {
        command.query_async(&mut self.clone()).await
    }
}

impl Connection for ConnectionManager {
    const IS_CLUSTER: bool = false;
    const RECONNECTS: bool = true;

    async fn send(&self, _: &str, command: &Cmd) -> RedisResult<Value> {
        command.query_async(&mut self.clone()).await
    }
}

impl Connection for ClusterConnection {
    const IS_CLUSTER: bool = true;
    // It follows the slots of a node that has become a replica.
    const RECONNECTS: bool = false;

    async fn send(&self, key: &str, command: &Cmd) -> RedisResult<Value> {
        self.send_to_slot(key, command).await
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for redis::aio::MultiplexedConnection {}
    impl Sealed for redis::aio::ConnectionManager {}
    impl Sealed for super::ClusterConnection {}
}
