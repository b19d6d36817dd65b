//! Limits for jsonrpsee's methods, over sockets.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use jsonrpsee::RpcModule;
use jsonrpsee::server::middleware::rpc::RpcServiceBuilder;
use jsonrpsee::server::{HttpRequest, Server, ServerHandle};
use serde_json::{Value, json};
use tidegate::concurrency::Concurrency;
use tidegate::enforce::{Admission, Enforcer};
use tidegate::http::{HeaderMap, PeerAddr};
use tidegate::{Key, Limiter, ManualClock, MemoryStore, Quota, Timestamp, minutes};
use tidegate_jsonrpsee::{RpcCall, RpcLimitLayer};
use tower::ServiceBuilder;

/// The user, as an HTTP middleware knows it.
#[derive(Clone)]
struct User(String);

struct App {
    address: SocketAddr,
    calls: Arc<AtomicUsize>,
    _handle: ServerHandle,
}

impl App {
    async fn start(limits: RpcLimitLayer) -> Self {
        let users = ServiceBuilder::new().map_request(|mut request: HttpRequest<_>| {
            let header = |headers: &HeaderMap, name: &str| Some(headers.get(name)?.to_str().ok()?.to_owned());
            if let Some(user) = header(request.headers(), "x-user") {
                request.extensions_mut().insert(User(user));
            }
            if let Some(peer) = header(request.headers(), "x-peer") {
                request.extensions_mut().insert(PeerAddr(peer.parse().unwrap()));
            }
            request
        });
        let server = Server::builder()
            .set_http_middleware(users)
            .set_rpc_middleware(RpcServiceBuilder::new().layer(limits))
            .build("127.0.0.1:0")
            .await
            .unwrap();
        let calls = Arc::new(AtomicUsize::new(0));
        let mut module = RpcModule::new(Arc::clone(&calls));
        for method in ["search", "version"] {
            module
                .register_method(method, move |_, calls, _| {
                    calls.fetch_add(1, Ordering::SeqCst);
                    method
                })
                .unwrap();
        }
        App { address: server.local_addr().unwrap(), calls, _handle: server.start(module) }
    }

    async fn post(&self, identity: (&str, &str), body: Value) -> Value {
        let request = reqwest::Client::new().post(format!("http://{}", self.address));
        let request = request.header("content-type", "application/json").header(identity.0, identity.1);
        let text = request.body(body.to_string()).send().await.unwrap().text().await.unwrap();
        if text.is_empty() { Value::Null } else { serde_json::from_str(&text).unwrap() }
    }

    async fn call(&self, user: &str, method: &str) -> Value {
        self.post(("x-user", user), call(1, method)).await
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

fn call(id: u64, method: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method })
}

fn limiter() -> Limiter {
    let store = MemoryStore::builder().clock(ManualClock::new(Timestamp::from_millis(1_800_000_000_000))).build();
    let window = |rate| Quota::fixed_window(rate, minutes(1)).unwrap();
    Limiter::builder().store(store).limit("api", window(3)).limit("search", window(1)).build().unwrap()
}

fn limits() -> RpcLimitLayer {
    let limiter = limiter();
    RpcLimitLayer::new(limiter.enforcer("api").unwrap())
        .method("search", limiter.enforcer("search").unwrap())
        .key(|call| call.extensions().get().map(|User(user)| Key::from_parts([user])))
}

#[tokio::test]
async fn method_has_its_own_limit() {
    let app = App::start(limits()).await;
    assert_eq!(app.call("alice", "search").await["result"], "search");
    let denied = app.call("alice", "search").await;
    let data = json!({ "code": "RESOURCE_EXHAUSTED", "retryAfterMs": 60_000, "retryable": true, "violatedPolicies": ["search"] });
    assert_eq!(denied["error"], json!({ "code": -32029, "message": "Rate limit exceeded", "data": data }));
    assert_eq!((&denied["id"], app.calls()), (&json!(1), 1));
    // Other methods and other users have theirs.
    for _ in 0..3 {
        assert_eq!(app.call("alice", "version").await["result"], "version");
    }
    assert_eq!(app.call("alice", "version").await["error"]["code"], -32029);
    assert_eq!(app.call("bob", "search").await["result"], "search");
}

#[tokio::test]
async fn calls_of_a_batch_are_limited_separately() {
    let app = App::start(limits()).await;
    let notification = json!({ "jsonrpc": "2.0", "method": "search" });
    let batch = json!([call(1, "search"), call(2, "search"), notification, call(3, "version")]);
    let answers = app.post(("x-user", "alice"), batch).await;
    let answers = answers.as_array().unwrap();
    assert_eq!(answers.len(), 3, "{answers:?}");
    let answer_to = |id: u64| answers.iter().find(|answer| answer["id"] == id).unwrap();
    assert_eq!(answer_to(1)["result"], "search");
    assert_eq!(
        (&answer_to(2)["error"]["code"], &answer_to(2)["error"]["data"]["retryAfterMs"]),
        (&json!(-32029), &json!(60_000))
    );
    assert_eq!(answer_to(3)["result"], "version");
    assert_eq!(app.calls(), 2);
}

#[tokio::test]
async fn rejected_notifications_of_a_batch_are_not_answered() {
    let app = App::start(limits()).await;
    assert_eq!(app.call("alice", "search").await["result"], "search");
    let notification = json!({ "jsonrpc": "2.0", "method": "search" });
    assert_eq!(app.post(("x-user", "alice"), json!([notification, notification])).await, Value::Null);
    assert_eq!(app.calls(), 1);
    // An empty batch is the client's error, as without limits.
    assert_eq!(app.post(("x-user", "alice"), json!([])).await["error"]["code"], -32600);
}

#[tokio::test]
async fn call_without_a_key_is_an_error_and_not_a_shared_budget() {
    let app = App::start(limits()).await;
    let answer = app.post(("x-other", "1"), call(1, "version")).await;
    assert_eq!((&answer["error"]["code"], &answer["error"]["data"]["code"]), (&json!(-32603), &json!("INTERNAL")));
    assert_eq!(app.calls(), 0);
}

#[tokio::test]
async fn key_defaults_to_the_peer_and_cost_can_depend_on_parameters() {
    let cost = |call: &RpcCall<'_>| call.params().map_or(1, |params| params.len() as u64);
    let app = App::start(RpcLimitLayer::new(limiter().enforcer("api").unwrap()).cost_of(cost)).await;
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "version", "params": [7] }); // three bytes
    // A client has one budget for all addresses of its network, in every notation.
    let peers = [("192.0.2.1", true), ("192.0.2.1", false), ("::ffff:192.0.2.1", false), ("192.0.2.2", true)];
    let networks = [("2001:db8::1", true), ("2001:db8::2", false), ("2001:db8:0:1::1", true)];
    for (peer, expected) in peers.into_iter().chain(networks) {
        let answer = app.post(("x-peer", peer), call.clone()).await;
        assert_eq!(answer.get("result").is_some(), expected, "{answer}");
    }
}

#[tokio::test]
async fn call_without_a_permit_is_rejected_and_an_answered_call_releases_its_permit() {
    let pool = Concurrency::fixed(1);
    let limits =
        RpcLimitLayer::from_admission(Admission::new(pool.clone(), Enforcer::unlimited())).key(|_| Some(Key::GLOBAL));
    let app = App::start(limits).await;
    let taken = pool.try_acquire().unwrap();
    let error = &app.call("alice", "version").await["error"];
    assert_eq!((&error["code"], &error["data"]["code"]), (&json!(-32029), &json!("UNAVAILABLE")));
    assert!(error["data"]["retryAfterMs"].is_u64(), "{error}");
    drop(taken);
    for _ in 0..2 {
        assert_eq!(app.call("alice", "version").await["result"], "version");
        assert_eq!(pool.in_flight(), 0);
    }
}
