//! The order of the pipeline: a message that one step rejects costs nothing of the next.

use std::sync::Arc;

use serde_json::json;
use tidegate::websocket::{
    Context, ExceededKind, MessageRateLimit, OnExceeded, Router, RouterBuilder, RpcContext, keys,
};
use tidegate::{Limiter, MemoryStore};
use tokio::sync::Semaphore;

use crate::support::{Add, Client, Counter, Say, ServerKind, Sum, for_every_server, quota, say, serve};

for_every_server!(
    large_message_costs_no_token,
    malformed_message_costs_no_token,
    unknown_type_costs_its_token,
    limited_rpc_takes_no_slot,
    limited_message_is_not_parsed,
    rpc_over_the_concurrency_bound_is_not_parsed_and_costs_its_token,
    invalid_payload_costs_its_token_and_releases_its_slot,
    answered_rpc_has_released_its_slot,
    admitted_message_is_handled_exactly_once,
    abort_costs_nothing,
);

/// A limiter with the limit `send`, for all messages together.
fn limiter(rate: u64) -> Limiter {
    Limiter::builder().limit("send", quota(rate)).store(MemoryStore::new()).build().unwrap()
}

fn limited(limiter: &Limiter) -> RouterBuilder<()> {
    Router::builder().rate_limit(MessageRateLimit::new(limiter.enforcer("send").unwrap()).key(keys::global()))
}

async fn left(limiter: &Limiter) -> u64 {
    limiter.check("send", tidegate::Key::GLOBAL).await.unwrap().remaining()
}

async fn large_message_costs_no_token(server_kind: ServerKind) {
    let limiter = limiter(5);
    let router = limited(&limiter)
        .max_message_bytes(1_000)
        .on_payload_exceeded(OnExceeded::Send)
        .on(|_: Context<()>, _: Say| async {})
        .build()
        .unwrap();
    let mut client = Client::connect(serve(server_kind, &router).await).await;
    client.send(say(&"x".repeat(1_000))).await;
    let message = client.next().await;
    let length = say(&"x".repeat(1_000)).to_string().len();
    let payload = json!({
        "code": "FAILED_PRECONDITION",
        "message": "Message too big",
        "details": { "observed": length, "limit": 1_000 },
        "retryable": false,
    });
    assert_eq!(message, json!({ "type": "ERROR", "meta": {}, "payload": payload }));
    client.send_frame(vec![0; 1_001].into()).await;
    assert_eq!(client.error().await, "FAILED_PRECONDITION", "binary or not");
    assert_eq!(left(&limiter).await, 5);
    // The connection still works, and a message of the maximum size is not too large.
    let longest = format!("{:<1$}", json!({ "type": "NOBODY" }).to_string(), 1_000);
    client.send_frame(longest.into()).await;
    assert_eq!(client.error().await, "UNIMPLEMENTED");
    assert_eq!(left(&limiter).await, 4);
}

async fn malformed_message_costs_no_token(server_kind: ServerKind) {
    let limiter = limiter(5);
    let router = limited(&limiter).on(|_: Context<()>, _: Say| async {}).build().unwrap();
    let mut client = Client::connect(serve(server_kind, &router).await).await;
    client.send_frame("{".into()).await;
    assert_eq!(client.error().await, "INVALID_ARGUMENT");
    assert_eq!(left(&limiter).await, 5);
}

async fn unknown_type_costs_its_token(server_kind: ServerKind) {
    let limiter = limiter(1);
    let router = limited(&limiter).build().unwrap();
    let mut client = Client::connect(serve(server_kind, &router).await).await;
    client.send(json!({ "type": "A" })).await;
    assert_eq!(client.error().await, "UNIMPLEMENTED");
    client.send(json!({ "type": "B" })).await;
    assert_eq!(client.error().await, "RESOURCE_EXHAUSTED");
}

/// RPCs that wait at a gate, one at a time.
fn gated(builder: RouterBuilder<()>, gate: &Arc<Semaphore>) -> Router<()> {
    let gate = Arc::clone(gate);
    let handler = move |_: RpcContext<()>, Add(a, b): Add| {
        let gate = Arc::clone(&gate);
        async move {
            gate.acquire().await.unwrap().forget();
            Ok(Sum(a + b))
        }
    };
    builder.max_concurrent_rpcs(1).rpc(handler).build().unwrap()
}

async fn limited_rpc_takes_no_slot(server_kind: ServerKind) {
    let (limiter, gate) = (limiter(1), Arc::new(Semaphore::new(0)));
    let router = gated(limited(&limiter), &gate);
    let mut client = Client::connect(serve(server_kind, &router).await).await;
    client.send(json!({ "type": "NOBODY" })).await;
    assert_eq!(client.error().await, "UNIMPLEMENTED", "there goes the token");
    for id in ["1", "2", "3"] {
        client.call(id, "ADD", json!([1, 1])).await;
        let message = client.next().await;
        assert_eq!(message["type"], "RPC_ERROR");
        assert_eq!(message["payload"]["message"], "Rate limit exceeded", "and not that there is no place");
    }
    let _ = limiter.reset("send", tidegate::Key::GLOBAL).await.unwrap();
    gate.add_permits(1);
    client.call("4", "ADD", json!([1, 1])).await;
    assert_eq!(client.next().await["type"], "SUM", "the one place is free");
}

async fn limited_message_is_not_parsed(server_kind: ServerKind) {
    let limiter = limiter(1);
    let router = limited(&limiter).on(|_: Context<()>, _: Say| async {}).build().unwrap();
    let mut client = Client::connect(serve(server_kind, &router).await).await;
    client.send(say("")).await;
    client.send(json!({ "type": "SAY", "payload": "nonsense" })).await;
    assert_eq!(client.error().await, "RESOURCE_EXHAUSTED");
}

async fn rpc_over_the_concurrency_bound_is_not_parsed_and_costs_its_token(server_kind: ServerKind) {
    let (limiter, gate) = (limiter(3), Arc::new(Semaphore::new(0)));
    let router = gated(limited(&limiter), &gate);
    let mut client = Client::connect(serve(server_kind, &router).await).await;
    client.call("1", "ADD", json!([1, 1])).await;
    client.call("2", "ADD", json!("nonsense")).await;
    assert_eq!(client.next().await["payload"]["message"], "Too many calls at once");
    assert_eq!(left(&limiter).await, 1);
}

async fn invalid_payload_costs_its_token_and_releases_its_slot(server_kind: ServerKind) {
    let (limiter, gate) = (limiter(3), Arc::new(Semaphore::new(1)));
    let router = gated(limited(&limiter), &gate);
    let mut client = Client::connect(serve(server_kind, &router).await).await;
    client.call("1", "ADD", json!("nonsense")).await;
    assert_eq!(client.next().await["payload"]["code"], "INVALID_ARGUMENT");
    assert_eq!(left(&limiter).await, 2);
    client.call("1", "ADD", json!([1, 1])).await;
    assert_eq!(client.next().await["type"], "SUM");
}

async fn answered_rpc_has_released_its_slot(server_kind: ServerKind) {
    const CALLS: usize = 500;
    let router = gated(Router::builder(), &Arc::new(Semaphore::new(CALLS)));
    let mut client = Client::connect(serve(server_kind, &router).await).await;
    for id in 0..CALLS {
        client.call(&id.to_string(), "ADD", json!([id, 0])).await;
        assert_eq!(client.next().await["payload"], id, "there is one place, and it is free");
    }
}

async fn admitted_message_is_handled_exactly_once(server_kind: ServerKind) {
    let limiter = limiter(60);
    let (handled, limited_by_hook) = (Counter::default(), Counter::default());
    let (counts, told) = (handled.clone(), limited_by_hook.clone());
    let router = limited(&limiter)
        .on(move |context: Context<()>, say: Say| {
            counts.count();
            async move { context.send(&say) }
        })
        .on_limit_exceeded(move |exceeded| {
            assert_eq!((exceeded.kind, exceeded.observed, exceeded.limit), (ExceededKind::Rate, 1, 60));
            assert_eq!(exceeded.message_type, Some("SAY"));
            told.count();
        })
        .build()
        .unwrap();
    let address = serve(server_kind, &router).await;
    let mut clients = Vec::new();
    for _ in 0..4 {
        clients.push(Client::connect(address).await);
    }
    for _ in 0..25 {
        for client in &mut clients {
            client.send(say("")).await;
        }
    }
    let mut answers = (0, 0);
    for client in &mut clients {
        for _ in 0..25 {
            if client.next().await["type"] == "SAY" { answers.0 += 1 } else { answers.1 += 1 }
        }
    }
    assert_eq!(answers, (60, 40));
    assert_eq!((handled.get(), limited_by_hook.get()), (60, 40));
}

async fn abort_costs_nothing(server_kind: ServerKind) {
    let (limiter, gate) = (limiter(1), Arc::new(Semaphore::new(0)));
    let router = gated(limited(&limiter), &gate);
    let mut client = Client::connect(serve(server_kind, &router).await).await;
    client.call("1", "ADD", json!([1, 1])).await;
    let abort = json!({ "type": "$ws:abort", "meta": { "correlationId": "1" } });
    client.send(abort.clone()).await;
    assert_eq!(client.next().await["payload"]["code"], "CANCELLED", "though nothing is left");
    client.send(abort).await;
    assert_eq!(client.error().await, "RESOURCE_EXHAUSTED", "the second ends nothing, and the call was answered");
}
