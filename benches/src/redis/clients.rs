//! The clients of the Redis benchmark: limiters, and plain commands over the same kind of connection.

use redis::aio::ConnectionManager;
use redis::{Client, pipe};
use tidegate::redis::{RedisStore, RedisStoreBuilder};
use tidegate::{Limiter, Quota};

use super::Server;
use super::throughput::LIMIT;
use crate::server_load::{KEYS, LoadClient, key_text};

/// A client that makes decisions as a service does.
#[derive(Clone)]
pub(super) struct LimiterClient(Limiter);

impl LimiterClient {
    pub(super) fn new(server: &Server, quota: Quota) -> Self {
        Self::with_builder(server, RedisStore::builder(), quota)
    }

    pub(super) fn with_builder(server: &Server, builder: RedisStoreBuilder, quota: Quota) -> Self {
        // A connection of its own, as the plain commands have.
        let store = server.runtime.block_on(builder.connect(&*server.url));
        let limiter = Limiter::builder().prefix(&server.prefix).limit(LIMIT, quota).store(store.expect("a connection"));
        LimiterClient(limiter.build().expect("a valid limiter"))
    }
}

impl LoadClient for LimiterClient {
    async fn send(&self, key: String) {
        let decision = self.0.limit(LIMIT, key).await.expect("the server answers");
        assert!(decision.allowed());
    }
}

/// A client that sends a plain command on a number.
#[derive(Clone)]
pub(super) struct CommandClient {
    connection: ConnectionManager,
    verb: &'static str,
    scope: String,
}

impl CommandClient {
    pub(super) fn new(server: &Server, verb: &'static str) -> Self {
        let client = Client::open(&*server.url).expect("a url");
        let scope = format!("{}|{verb}", server.prefix);
        server.runtime.block_on(async {
            let mut connection = ConnectionManager::new(client).await.expect("a connection");
            let mut numbers = pipe();
            for number in 0..KEYS {
                numbers.set_ex(format!("{scope}|{}", key_text(number)), 0, 3_600).ignore();
            }
            let () = numbers.query_async(&mut connection).await.expect("the server answers");
            CommandClient { connection, verb, scope }
        })
    }
}

impl LoadClient for CommandClient {
    async fn send(&self, key: String) {
        let mut connection = self.connection.clone();
        let mut command = redis::cmd(self.verb);
        command.arg(format!("{}|{key}", self.scope));
        let _: u64 = command.query_async(&mut connection).await.expect("the server answers");
    }
}
