//! What a program is told, exactly once each.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::routing::get;
use tidegate::enforce::{Caller, Enforcer, Outcome};
use tidegate::http::RateLimit;
use tidegate::tower::RateLimitLayer;
use tidegate::{Limit, Limiter, OnStoreError, Reason};

use crate::clients::{self, Reply};
use crate::support::{ME, Server, builder, clock, dead, left, limiter, removed_limit, waiting_limiter, window};

/// What the hooks were told, in order.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<String>>>);

impl Told {
    fn hook(&self, name: &'static str) -> impl Fn(&Caller<'_>, &Outcome) + Send + Sync + 'static {
        let told = Arc::clone(&self.0);
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
            told.lock().unwrap().push(format!("{name}: {key} {what}"));
        }
    }

    fn listen(&self, enforcer: Enforcer) -> Enforcer {
        enforcer.on_limited(self.hook("limited")).on_error(self.hook("error"))
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// A limiter on a dead store.
fn on_a_dead_store(limit: Limit) -> Limiter {
    Limiter::builder().limit("api", limit).store(dead()).build().unwrap()
}

fn limit(policy: OnStoreError) -> Limit {
    Limit::new(window(1)).on_store_error(policy)
}

#[tokio::test]
async fn each_request_that_is_limited_is_told_once() {
    for limiter in [limiter(window(1)), waiting_limiter(window(1))] {
        let told = Told::default();
        let server = Server::behind(told.listen(limiter.enforcer("api").unwrap())).await;
        assert_eq!((clients::get(server.address).await.status, told.take()), (200, vec![]));
        for _ in 0..3 {
            assert_eq!(clients::get(server.address).await.status, 429);
            assert_eq!(told.take(), ["limited: 127.0.0.1 limited"]);
        }
    }
}

#[tokio::test]
async fn each_request_that_is_denied_by_a_list_is_told_once() {
    let limiter = builder(&clock()).limit("api", window(1)).deny("api", [ME]).unwrap().build().unwrap();
    let told = Told::default();
    let server = Server::behind(told.listen(limiter.enforcer("api").unwrap())).await;
    assert_eq!(clients::get(server.address).await.status, 403);
    assert_eq!(told.take(), ["limited: 127.0.0.1 denied"]);
}

#[tokio::test]
async fn each_error_is_told_once_and_so_is_an_admission_without_a_store() {
    let [open, closed] = [OnStoreError::Open, OnStoreError::Closed].map(limit).map(on_a_dead_store);
    let cases = [
        (removed_limit("gone"), 500, "invalid"),
        (open.enforcer("api").unwrap(), 200, "allowed"),
        (open.enforcer("api").unwrap().and("api").unwrap(), 200, "allowed"),
        (closed.enforcer("api").unwrap(), 503, "unavailable"),
        (closed.enforcer("api").unwrap().on_store_error(OnStoreError::Open), 200, "allowed"),
        (open.enforcer("api").unwrap().on_store_error(OnStoreError::Closed), 503, "unavailable"),
    ];
    for (enforcer, status, what) in cases {
        let told = Told::default();
        let server = Server::behind(told.listen(enforcer)).await;
        assert_eq!(clients::get(server.address).await.status, status);
        assert_eq!(told.take(), [format!("error: 127.0.0.1 {what}")]);
    }
}

#[tokio::test]
async fn a_request_without_a_key_is_told_once() {
    let told = Told::default();
    let limiter = limiter(window(1));
    let layer = RateLimitLayer::new(told.listen(limiter.enforcer("api").unwrap()));
    let router = Router::new().fallback(|| async { "ok" }).layer(layer);
    let server = Server::start(|listener| async move { axum::serve(listener, router).await.unwrap() }).await;
    assert_eq!(clients::get(server.address).await.status, 500);
    assert_eq!(told.take(), ["error: nobody invalid"]);
}

#[tokio::test]
async fn a_charge_is_not_told_as_a_denial() {
    let told = Told::default();
    let limiter = limiter(window(1));
    let limits = RateLimit::new(told.listen(limiter.enforcer("api").unwrap())).charge_when(|_, _| true);
    let server = Server::behind(limits).await;
    assert_eq!((clients::get(server.address).await.status, told.take()), (200, vec![]));
    assert_eq!(clients::get(server.address).await.status, 429);
    assert_eq!(told.take(), ["limited: 127.0.0.1 limited"]);
}

#[tokio::test]
async fn a_hook_that_panics_changes_nothing_of_the_response() {
    let replies = |panics: bool| async move {
        let limiter = limiter(window(1));
        let hook = move |_: &Caller<'_>, _: &Outcome| assert!(!panics, "on purpose");
        let mut replies: Vec<Reply> = Vec::new();
        let api = limiter.enforcer("api").unwrap();
        for enforcer in [api.clone(), api, removed_limit("gone")] {
            let server = Server::behind(enforcer.on_limited(hook).on_error(hook)).await;
            // The second request is there to find the connection and the service alive.
            let mut client = clients::Raw::connect(server.address).await;
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
        let told = Told::default();
        let limiter = enforcer.limiter().clone();
        let layer = RateLimitLayer::new(RateLimit::new(told.listen(enforcer)).extension());
        let server = Server::router(Router::new().route("/", get(reason)).layer(layer)).await;
        for (reason, limit) in [(None, r#""api";r=0;t=60"#), (Some(Reason::Rate), r#""api";r=0;t=60"#)] {
            let reply = clients::get(server.address).await;
            assert_eq!((reply.status, &*reply.body), (200, &*format!("{reason:?}")));
            assert_eq!((reply.header("ratelimit"), reply.header("retry-after")), (Some(limit), None));
        }
        assert_eq!(left(&limiter, "api", ME).await, 0);
        // Nobody was turned away, and who would have been is told.
        assert_eq!(told.take(), [format!("limited: {ME} allowed")]);
    }
}

#[tokio::test]
async fn shadow_mode_admits_when_the_store_is_dead_and_the_limit_closed() {
    let by_enforcer = on_a_dead_store(limit(OnStoreError::Closed));
    let by_limit = on_a_dead_store(limit(OnStoreError::Closed).shadow(true));
    for enforcer in [
        by_enforcer.enforcer("api").unwrap().shadow(true),
        by_enforcer.enforcer("api").unwrap().and("api").unwrap().shadow(true),
        by_limit.enforcer("api").unwrap(),
        by_limit.enforcer("api").unwrap().and("api").unwrap(),
    ] {
        let told = Told::default();
        let server = Server::behind(told.listen(enforcer)).await;
        assert_eq!(clients::get(server.address).await.status, 200);
        assert_eq!(told.take(), ["error: 127.0.0.1 allowed"]);
    }
    // A mistake in the program is none the less one.
    let server = Server::behind(removed_limit("gone").shadow(true)).await;
    assert_eq!(clients::get(server.address).await.status, 500);
}
