//! Hooks, which are called once per event.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::routing::get;
use tidegate::enforce::{Caller, Enforcer, Outcome};
use tidegate::http::RateLimit;
use tidegate::tower::RateLimitLayer;
use tidegate::{Limit, Limiter, OnStoreError, Reason};

use crate::clients::{self, Reply};
use crate::support::{
    LOOPBACK, Server, builder, clock, dead_store, left, limiter, removed_limit, waiting_limiter, window,
};

/// The calls of hooks, in order.
#[derive(Clone, Default)]
struct HookLog(Arc<Mutex<Vec<String>>>);

impl HookLog {
    fn hook(&self, name: &'static str) -> impl Fn(&Caller<'_>, &Outcome) + Send + Sync + 'static {
        let log = Arc::clone(&self.0);
        move |caller, outcome| {
            let key = caller.key(0).map_or("nobody".into(), |key| key.to_text().into_owned());
            let what = match outcome {
                Outcome::Allowed(_) => "allowed",
                Outcome::Limited(_) => "limited",
                Outcome::Overloaded(_) => "overloaded",
                Outcome::Denied(_) => "denied",
                Outcome::Unavailable(_) => "unavailable",
                Outcome::Invalid(_) => "invalid",
            };
            log.lock().unwrap().push(format!("{name}: {key} {what}"));
        }
    }

    fn attach_to(&self, enforcer: Enforcer) -> Enforcer {
        enforcer.on_limited(self.hook("limited")).on_error(self.hook("error"))
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// A limiter on a dead store.
fn dead_store_limiter(limit: Limit) -> Limiter {
    Limiter::builder().limit("api", limit).store(dead_store()).build().unwrap()
}

fn limit(policy: OnStoreError) -> Limit {
    Limit::new(window(1)).on_store_error(policy)
}

#[tokio::test]
async fn limited_request_calls_the_hook_once() {
    for limiter in [limiter(window(1)), waiting_limiter(window(1))] {
        let log = HookLog::default();
        let server = Server::behind(log.attach_to(limiter.enforcer("api").unwrap())).await;
        assert_eq!((clients::get(server.address).await.status, log.take()), (200, vec![]));
        for _ in 0..3 {
            assert_eq!(clients::get(server.address).await.status, 429);
            assert_eq!(log.take(), ["limited: 127.0.0.1 limited"]);
        }
    }
}

#[tokio::test]
async fn listed_client_calls_the_hook_once() {
    let limiter = builder(&clock()).limit("api", window(1)).deny("api", [LOOPBACK]).unwrap().build().unwrap();
    let log = HookLog::default();
    let server = Server::behind(log.attach_to(limiter.enforcer("api").unwrap())).await;
    assert_eq!(clients::get(server.address).await.status, 403);
    assert_eq!(log.take(), ["limited: 127.0.0.1 denied"]);
}

#[tokio::test]
async fn error_or_admission_without_store_calls_the_hook_once() {
    let [open, closed] = [OnStoreError::Open, OnStoreError::Closed].map(limit).map(dead_store_limiter);
    let cases = [
        (removed_limit("gone"), 500, "invalid"),
        (open.enforcer("api").unwrap(), 200, "allowed"),
        (open.enforcer("api").unwrap().and("api").unwrap(), 200, "allowed"),
        (closed.enforcer("api").unwrap(), 503, "unavailable"),
        (closed.enforcer("api").unwrap().on_store_error(OnStoreError::Open), 200, "allowed"),
        (open.enforcer("api").unwrap().on_store_error(OnStoreError::Closed), 503, "unavailable"),
    ];
    for (enforcer, status, what) in cases {
        let log = HookLog::default();
        let server = Server::behind(log.attach_to(enforcer)).await;
        assert_eq!(clients::get(server.address).await.status, status);
        assert_eq!(log.take(), [format!("error: 127.0.0.1 {what}")]);
    }
}

#[tokio::test]
async fn request_without_a_key_calls_the_hook_once() {
    let log = HookLog::default();
    let limiter = limiter(window(1));
    let layer = RateLimitLayer::new(log.attach_to(limiter.enforcer("api").unwrap()));
    let router = Router::new().fallback(|| async { "ok" }).layer(layer);
    let server = Server::start(|listener| async move { axum::serve(listener, router).await.unwrap() }).await;
    assert_eq!(clients::get(server.address).await.status, 500);
    assert_eq!(log.take(), ["error: nobody invalid"]);
}

#[tokio::test]
async fn charge_does_not_call_the_hook() {
    let log = HookLog::default();
    let limiter = limiter(window(1));
    let limits = RateLimit::new(log.attach_to(limiter.enforcer("api").unwrap())).charge_when(|_, _| true);
    let server = Server::behind(limits).await;
    assert_eq!((clients::get(server.address).await.status, log.take()), (200, vec![]));
    assert_eq!(clients::get(server.address).await.status, 429);
    assert_eq!(log.take(), ["limited: 127.0.0.1 limited"]);
}

#[tokio::test]
async fn panicking_hook_does_not_change_the_response() {
    let replies = |panics: bool| async move {
        let limiter = limiter(window(1));
        let hook = move |_: &Caller<'_>, _: &Outcome| assert!(!panics, "on purpose");
        let mut replies: Vec<Reply> = Vec::new();
        let api = limiter.enforcer("api").unwrap();
        for enforcer in [api.clone(), api, removed_limit("gone")] {
            let server = Server::behind(enforcer.on_limited(hook).on_error(hook)).await;
            // The second request asserts that the connection and the service still work.
            let mut client = clients::RawClient::connect(server.address).await;
            replies.push(client.get("/", &[]).await);
            replies.push(client.get("/", &[]).await);
        }
        replies
    };
    let panicked = replies(true).await;
    assert_eq!(panicked, replies(false).await);
    assert_eq!(panicked.iter().map(|reply| reply.status).collect::<Vec<_>>(), [200, 429, 429, 429, 500, 500]);
}

#[tokio::test]
async fn shadow_mode_counts_and_never_denies() {
    async fn reason(outcome: Outcome) -> String {
        format!("{:?}", outcome.limit_decisions()[0].decision().reason())
    }
    let by_limit = builder(&clock()).limit("api", Limit::new(window(1)).shadow(true)).build().unwrap();
    let by_enforcer = limiter(window(1));
    for enforcer in [by_limit.enforcer("api").unwrap(), by_enforcer.enforcer("api").unwrap().shadow(true)] {
        let log = HookLog::default();
        let limiter = enforcer.limiter().clone();
        let layer = RateLimitLayer::new(RateLimit::new(log.attach_to(enforcer)).extension());
        let server = Server::router(Router::new().route("/", get(reason)).layer(layer)).await;
        for (reason, limit) in [(None, r#""api";r=0;t=60"#), (Some(Reason::Rate), r#""api";r=0;t=60"#)] {
            let reply = clients::get(server.address).await;
            assert_eq!((reply.status, &*reply.body), (200, &*format!("{reason:?}")));
            assert_eq!((reply.header("ratelimit"), reply.header("retry-after")), (Some(limit), None));
        }
        assert_eq!(left(&limiter, "api", LOOPBACK).await, 0);
        // The would-be denial called the hook.
        assert_eq!(log.take(), [format!("limited: {LOOPBACK} allowed")]);
    }
}

#[tokio::test]
async fn shadow_mode_admits_when_the_store_is_dead_and_the_limit_closed() {
    let by_enforcer = dead_store_limiter(limit(OnStoreError::Closed));
    let by_limit = dead_store_limiter(limit(OnStoreError::Closed).shadow(true));
    for enforcer in [
        by_enforcer.enforcer("api").unwrap().shadow(true),
        by_enforcer.enforcer("api").unwrap().and("api").unwrap().shadow(true),
        by_limit.enforcer("api").unwrap(),
        by_limit.enforcer("api").unwrap().and("api").unwrap(),
    ] {
        let log = HookLog::default();
        let server = Server::behind(log.attach_to(enforcer)).await;
        assert_eq!(clients::get(server.address).await.status, 200);
        assert_eq!(log.take(), ["error: 127.0.0.1 allowed"]);
    }
    // Misuse is an error in shadow mode, too.
    let server = Server::behind(removed_limit("gone").shadow(true)).await;
    assert_eq!(clients::get(server.address).await.status, 500);
}
