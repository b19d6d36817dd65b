//! RPCs: exactly one answer each.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tidegate::websocket::{
    Context, ErrorCode, Message, MessageError, MessageRateLimit, Router, RouterBuilder, Rpc, RpcContext,
};
use tidegate::{Limiter, MemoryStore};
use tidegate_testkit::FaultyStore;
use tokio::sync::Semaphore;

use crate::support::{Add, Client, Counter, ServerKind, Sum, for_every_server, quota, serve, until};

for_every_server!(
    rpc_gets_its_reply,
    rpc_error_is_the_answer,
    rpcs_run_concurrently,
    progress_precedes_the_reply_and_never_follows,
    aborted_rpc_is_dropped_and_answered_once,
    rpc_that_times_out_is_dropped,
    client_can_shorten_the_timeout,
    id_in_flight_is_rejected,
    id_can_be_reused_after_an_abort,
    id_freed_during_the_rate_limit_is_answered,
    many_large_replies_arrive,
    middleware_can_reply,
    rpcs_end_with_their_connection,
);

fn rpc_error(id: &str, code: &str, message: &Value) {
    assert_eq!(message["type"], "RPC_ERROR", "{message}");
    assert_eq!(message["meta"], json!({ "correlationId": id }));
    assert_eq!(message["payload"]["code"], code);
}

/// RPCs that add once a gate opens. They count their starts and their drops.
#[derive(Clone)]
struct Gate {
    gate: Arc<Semaphore>,
    begun: Counter,
    ended: Counter,
}

impl Gate {
    fn new() -> Self {
        Gate { gate: Arc::new(Semaphore::new(0)), begun: Counter::default(), ended: Counter::default() }
    }

    fn open(&self, calls: usize) {
        self.gate.add_permits(calls);
    }

    fn router(&self) -> RouterBuilder<()> {
        let gate = self.clone();
        // Longer than any test.
        Router::builder().max_concurrent_rpcs(3).rpc_timeout(Duration::from_secs(3_600)).rpc(
            move |_: RpcContext<()>, Add(a, b): Add| {
                gate.begun.count();
                let (gate, ended) = (Arc::clone(&gate.gate), OnDrop(gate.ended.clone()));
                async move {
                    gate.acquire().await.unwrap().forget();
                    drop(ended);
                    Ok(Sum(a + b))
                }
            },
        )
    }
}

struct OnDrop(Counter);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.count();
    }
}

async fn rpc_gets_its_reply(server_kind: ServerKind) {
    let router: Router<()> =
        Router::builder().rpc(|_: RpcContext<()>, Add(a, b): Add| async move { Ok(Sum(a + b)) }).build().unwrap();
    let mut client = Client::connect(serve(server_kind, &router).await).await;
    client.call("é\"1", "ADD", json!([2, 3])).await;
    assert_eq!(client.next().await, json!({ "type": "SUM", "meta": { "correlationId": "é\"1" }, "payload": 5 }));
    client.send(json!({ "type": "ADD", "payload": [2, 3] })).await;
    assert_eq!(client.error().await, "INVALID_ARGUMENT", "a call has an id");
}

async fn rpc_error_is_the_answer(server_kind: ServerKind) {
    let router: Router<()> = Router::builder()
        .rpc(|_: RpcContext<()>, Add(a, b): Add| async move {
            assert!(a < 100, "too much for anybody");
            a.checked_sub(b).map(Sum).ok_or_else(|| {
                MessageError::new(ErrorCode::Unavailable, "not now").with_retry_after(Duration::from_micros(1_500))
            })
        })
        .build()
        .unwrap();
    let mut client = Client::connect(serve(server_kind, &router).await).await;
    client.call("1", "ADD", json!([2, 3])).await;
    let message = client.next().await;
    rpc_error("1", "UNAVAILABLE", &message);
    assert_eq!((&message["payload"]["retryable"], &message["payload"]["retryAfterMs"]), (&json!(true), &json!(2)));
    client.call("2", "ADD", json!([100, 1])).await;
    rpc_error("2", "INTERNAL", &client.next().await);
    client.call("3", "ADD", json!("x")).await;
    rpc_error("3", "INVALID_ARGUMENT", &client.next().await);
}

async fn rpcs_run_concurrently(server_kind: ServerKind) {
    let gate = Gate::new();
    let router = gate.router().build().unwrap();
    let mut client = Client::connect(serve(server_kind, &router).await).await;
    for id in ["1", "2", "3", "4"] {
        client.call(id, "ADD", json!([1, 1])).await;
    }
    // Three are running, so the fourth is rejected, and is the first to be answered.
    let message = client.next().await;
    rpc_error("4", "RESOURCE_EXHAUSTED", &message);
    assert_eq!(message["payload"]["details"], json!({ "observed": 4, "limit": 3 }));
    assert!(message["payload"]["retryAfterMs"].as_u64().unwrap() > 0);
    gate.open(3);
    let mut answered = Vec::new();
    for _ in 0..3 {
        answered.push(client.next().await["meta"]["correlationId"].as_str().unwrap().to_owned());
    }
    answered.sort();
    assert_eq!(answered, ["1", "2", "3"]);
    // From now on the latency is known. Before, the hint is one second.
    for id in ["1", "2", "3", "4"] {
        client.call(id, "ADD", json!([1, 1])).await;
    }
    let hint = client.next().await["payload"]["retryAfterMs"].as_u64().unwrap();
    assert!(hint > 0 && hint != 1_000, "{hint}");
    gate.open(3);
}

async fn progress_precedes_the_reply_and_never_follows(server_kind: ServerKind) {
    let late = Counter::default();
    let late_by = late.clone();
    let router: Router<()> = Router::builder()
        .rpc(move |context: RpcContext<()>, Add(a, b): Add| {
            let late = late_by.clone();
            async move {
                for step in 0..3 {
                    assert_eq!(context.progress(&json!({ "step": step })), Ok(true));
                }
                tokio::spawn(async move {
                    // A handler that does not know that its RPC is over.
                    while context.progress(&json!("late")) != Ok(false) {
                        tokio::task::yield_now().await;
                    }
                    late.count();
                });
                Ok(Sum(a + b))
            }
        })
        .on(|context: Context<()>, say: crate::support::Say| async move { context.send(&say) })
        .build()
        .unwrap();
    let mut client = Client::connect(serve(server_kind, &router).await).await;
    client.call("1", "ADD", json!([2, 3])).await;
    for step in 0..3 {
        let expected =
            json!({ "type": "$ws:rpc-progress", "meta": { "correlationId": "1" }, "payload": { "step": step } });
        assert_eq!(client.next().await, expected);
    }
    loop {
        let message = client.next().await;
        if message["type"] == "SUM" {
            break;
        }
        assert_eq!(message["payload"], "late", "while it was not over");
    }
    until(|| late.get() == 1).await;
    client.send(crate::support::say("next")).await;
    assert_eq!(client.next().await["type"], "SAY", "nothing comes after the answer");
}

async fn aborted_rpc_is_dropped_and_answered_once(server_kind: ServerKind) {
    let gate = Gate::new();
    let router = gate.router().build().unwrap();
    let mut client = Client::connect(serve(server_kind, &router).await).await;
    let abort = |id: &str| json!({ "type": "$ws:abort", "meta": { "correlationId": id } });
    client.call("1", "ADD", json!([1, 1])).await;
    client.call("2", "ADD", json!([1, 1])).await;
    until(|| gate.begun.get() == 2).await;
    client.send(abort("1")).await;
    rpc_error("1", "CANCELLED", &client.next().await);
    assert_eq!(gate.ended.get(), 1);
    // Neither a finished RPC nor one that never was.
    client.send(abort("1")).await;
    client.send(abort("7")).await;
    client.send(json!({ "type": "$ws:abort" })).await;
    gate.open(1);
    assert_eq!(client.next().await["meta"]["correlationId"], "2");
}

async fn rpc_that_times_out_is_dropped(server_kind: ServerKind) {
    let gate = Gate::new();
    let router = gate.router().rpc_timeout(Duration::from_millis(1)).build().unwrap();
    let mut client = Client::connect(serve(server_kind, &router).await).await;
    client.call("1", "ADD", json!([1, 1])).await;
    rpc_error("1", "DEADLINE_EXCEEDED", &client.next().await);
    assert_eq!(gate.ended.get(), gate.begun.get());
}

async fn client_can_shorten_the_timeout(server_kind: ServerKind) {
    let router = Gate::new().router().build().unwrap();
    let mut client = Client::connect(serve(server_kind, &router).await).await;
    let meta = json!({ "correlationId": "1", "timeoutMs": 1 });
    client.send(json!({ "type": "ADD", "meta": meta, "payload": [1, 1] })).await;
    rpc_error("1", "DEADLINE_EXCEEDED", &client.next().await);
}

async fn id_in_flight_is_rejected(server_kind: ServerKind) {
    let gate = Gate::new();
    let router = gate.router().build().unwrap();
    let mut client = Client::connect(serve(server_kind, &router).await).await;
    client.call("1", "ADD", json!([1, 1])).await;
    client.call("1", "ADD", json!([2, 2])).await;
    // With its ID, the client would take it for the answer to the first.
    assert_eq!(client.error().await, "ALREADY_EXISTS");
    gate.open(2);
    assert_eq!(client.next().await["payload"], 2);
    client.call("1", "ADD", json!([2, 2])).await;
    assert_eq!(client.next().await["payload"], 4, "the id is free again");
}

async fn id_can_be_reused_after_an_abort(server_kind: ServerKind) {
    let gate = Gate::new();
    let router = gate.router().build().unwrap();
    let mut client = Client::connect(serve(server_kind, &router).await).await;
    for number in 0..50 {
        client.call("1", "ADD", json!([number, 0])).await;
        client.send(json!({ "type": "$ws:abort", "meta": { "correlationId": "1" } })).await;
        client.call("1", "ADD", json!([number, 0])).await;
        // The second RPC was too early, or it is separate, so the end of the first does not end it.
        let (mut cancelled, mut too_early) = (false, false);
        while !cancelled {
            let message = client.next().await;
            match message["payload"]["code"].as_str() {
                Some("CANCELLED") => cancelled = true,
                Some("ALREADY_EXISTS") => too_early = true,
                _ => panic!("{message}"),
            }
        }
        gate.open(1);
        loop {
            if std::mem::take(&mut too_early) {
                client.call("1", "ADD", json!([number, 0])).await;
            }
            let message = client.next().await;
            match message["payload"]["code"].as_str() {
                None => break assert_eq!(message["payload"], number),
                Some("ALREADY_EXISTS") => too_early = true,
                Some(_) => panic!("{message}"),
            }
        }
    }
}

async fn id_freed_during_the_rate_limit_is_answered(server_kind: ServerKind) {
    let (gate, store) = (Gate::new(), FaultyStore::new(MemoryStore::new()));
    let faults = store.faults();
    let limiter = Limiter::builder().limit("call", quota(2)).store(store).build().unwrap();
    let router = gate.router().rate_limit(MessageRateLimit::new(limiter.enforcer("call").unwrap())).build().unwrap();
    let mut client = Client::connect(serve(server_kind, &router).await).await;
    client.call("1", "ADD", json!([1, 1])).await;
    until(|| gate.begun.get() == 1).await;
    // The next two are checked while the RPC before them holds the ID, and decided when it is free.
    for begun in [true, false] {
        faults.hang();
        client.call("1", "ADD", json!([2, 2])).await;
        until(|| faults.held_calls() == 1).await;
        gate.open(1);
        assert_eq!(client.next().await["type"], "SUM");
        faults.pass();
        faults.release();
        if begun {
            until(|| gate.begun.get() == 2).await;
        } else {
            rpc_error("1", "RESOURCE_EXHAUSTED", &client.next().await);
        }
    }
}

async fn many_large_replies_arrive(server_kind: ServerKind) {
    let gate = Arc::new(Semaphore::new(0));
    let opens = Arc::clone(&gate);
    let router: Router<()> = Router::builder()
        .send_queue(8, 1 << 20)
        .rpc(move |_: RpcContext<()>, _: GetLong| {
            let gate = Arc::clone(&opens);
            async move {
                gate.acquire().await.unwrap().forget();
                Ok(Long("x".repeat(100_000)))
            }
        })
        .build()
        .unwrap();
    #[derive(serde::Deserialize)]
    struct GetLong;
    impl Message for GetLong {
        const TYPE: &'static str = "ASK";
    }
    impl Rpc for GetLong {
        type Reply = Long;
    }
    #[derive(serde::Serialize)]
    struct Long(String);
    impl Message for Long {
        const TYPE: &'static str = "LONG";
    }
    let mut client = Client::connect(serve(server_kind, &router).await).await;
    for id in 0..64 {
        client.call(&id.to_string(), "ASK", json!(null)).await;
    }
    gate.add_permits(64);
    for _ in 0..64 {
        assert_eq!(client.next().await["type"], "LONG", "none of them is lost, and the client stays connected");
    }
}

async fn middleware_can_reply(server_kind: ServerKind) {
    let router: Router<()> = Router::builder()
        .wrap(|context: Context<()>, _| async move { context.reply(&Sum(42)) })
        .rpc(|_: RpcContext<()>, _: Add| async { Err(MessageError::new(ErrorCode::Internal, "never called")) })
        .build()
        .unwrap();
    let mut client = Client::connect(serve(server_kind, &router).await).await;
    client.call("1", "ADD", json!([1, 1])).await;
    assert_eq!(client.next().await, json!({ "type": "SUM", "meta": { "correlationId": "1" }, "payload": 42 }));
}

async fn rpcs_end_with_their_connection(server_kind: ServerKind) {
    let gate = Gate::new();
    let router = gate.router().build().unwrap();
    let mut client = Client::connect(serve(server_kind, &router).await).await;
    for id in ["1", "2"] {
        client.call(id, "ADD", json!([1, 1])).await;
    }
    until(|| gate.begun.get() == 2).await;
    drop(client);
    until(|| gate.ended.get() == 2).await;
    until(|| router.connection_count() == 0).await;
}
