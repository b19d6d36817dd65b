//! The WebSocket server of the benchmark, which answers each RPC immediately.

use serde::{Deserialize, Serialize};
use tidegate::enforce::Enforcer;
use tidegate::redis::RedisStore;
use tidegate::websocket::{
    ConnectionData, Handshake, Message, MessageHead, MessageRateLimit, Router, Rpc, RpcContext, keys,
};
use tidegate::{Key, Limiter, Quota, seconds};
use tidegate_servers::required_env;

#[derive(Deserialize)]
struct Echo(u64);

impl Message for Echo {
    const TYPE: &'static str = "ECHO";
}

#[derive(Serialize)]
struct Echoed(u64);

impl Message for Echoed {
    const TYPE: &'static str = "ECHOED";
}

impl Rpc for Echo {
    type Reply = Echoed;
}

/// The user of a connection, from its path.
struct User(String);

impl ConnectionData for User {
    fn user(&self) -> Option<Key<'static>> {
        Some(Key::from_parts([&self.0]))
    }
}

/// Serves until the process ends. Floods are limited on Redis, as for a fleet of such processes.
pub(crate) fn serve() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let redis = RedisStore::builder().connect(required_env("TIDEGATE_REDIS_URL")).await.expect("a Redis");
        let quiet = Enforcer::from_quota(Quota::token_bucket(1_000_000, seconds(1)).expect("a quota"));
        let few = Quota::token_bucket(10, seconds(1)).expect("a quota");
        let flood = Limiter::builder().prefix("bench-ws-").limit("flood", few).store(redis).build().expect("a limit");
        let flood = flood.enforcer("flood").unwrap();
        let pick = move |head: &MessageHead<'_, User>| {
            if head.data().0 == "/quiet" { quiet.clone() } else { flood.clone() }
        };
        let router = Router::<User>::builder()
            .rate_limit(MessageRateLimit::pick(pick).key(keys::user()))
            .rpc(|_: RpcContext<User>, Echo(number): Echo| async move { Ok(Echoed(number)) })
            .authenticate(|handshake: Handshake| async move { Ok(User(handshake.uri().path().to_owned())) })
            .expect("the types and limits are valid");
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        println!("{}", listener.local_addr().expect("an address"));
        loop {
            let (stream, peer) = listener.accept().await.expect("a connection");
            stream.set_nodelay(true).expect("a socket");
            let router = router.clone();
            tokio::spawn(async move { drop(router.accept(stream, Some(peer.ip())).await) });
        }
    });
}
