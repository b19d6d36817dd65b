//! Many connections that share one limit on Redis.

use tidegate::redis::RedisStore;
use tidegate::websocket::{Context, MessageRateLimit, Router, keys};
use tidegate::{Clock, Limiter, SystemClock};
use tidegate_servers::required_env;

use crate::support::{Client, Counter, Say, ServerKind, quota, say, serve};

const CONNECTIONS: usize = 200;
const MESSAGES: usize = 20;
const QUOTA: u64 = 1_234;

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_connections_get_exactly_the_quota() {
    let store = RedisStore::builder().connect(required_env("TIDEGATE_REDIS_URL")).await.unwrap();
    let prefix = format!("ws-{}-{}-", SystemClock.now().as_micros(), std::process::id());
    let limiter = Limiter::builder().prefix(prefix).limit("send", quota(QUOTA)).bare_store(store).build().unwrap();
    let handled = Counter::default();
    let counts = handled.clone();
    let router: Router<()> = Router::builder()
        .rate_limit(MessageRateLimit::new(limiter.enforcer("send").unwrap()).key(keys::global()))
        .on(move |context: Context<()>, say: Say| {
            counts.count();
            async move { context.send(&say) }
        })
        .build()
        .unwrap();
    // Half of them on each kind of server, with their quota in Redis.
    let addresses = [serve(ServerKind::Tungstenite, &router).await, serve(ServerKind::Axum, &router).await];
    let mut clients = tokio::task::JoinSet::new();
    for number in 0..CONNECTIONS {
        let address = addresses[number % 2];
        clients.spawn(async move {
            let mut client = Client::connect(address).await;
            for _ in 0..MESSAGES {
                client.send(say("")).await;
            }
            let mut admitted = 0;
            for _ in 0..MESSAGES {
                let answer = client.next().await;
                match answer["payload"]["code"].as_str() {
                    None => admitted += 1,
                    Some(code) => assert_eq!(code, "RESOURCE_EXHAUSTED"),
                }
            }
            admitted
        });
    }
    let admitted: u64 = clients.join_all().await.into_iter().sum();
    assert_eq!((admitted, handled.get()), (QUOTA, QUOTA));
}
