//! Whom a request is counted under.

use axum::extract::Request;
use axum::middleware::map_request;
use axum::routing::get;
use axum::{Extension, Router};
use tidegate::http::{HeaderName, RateLimit, RequestHead, keys};
use tidegate::tower::RateLimitLayer;
use tidegate::{Key, Limiter};

use crate::clients::{self, Raw};
use crate::support::{ME, Server, left, limiter, window};

const USER: HeaderName = HeaderName::from_static("user");

/// A client whose requests are counted by `key` in the limit `api`, nine a minute, and that limit.
async fn counted_by(
    key: impl Fn(&RequestHead<'_>) -> Option<Key<'static>> + Send + Sync + 'static,
) -> (Raw, Server, Limiter) {
    let limiter = limiter(window(9));
    let server = Server::behind(RateLimit::new(limiter.enforcer("api").unwrap()).key(key)).await;
    (Raw::connect(server.address).await, server, limiter)
}

/// How many requests were counted under a key.
async fn counted<'a>(limiter: &'a Limiter, key: impl Into<Key<'a>>) -> u64 {
    9 - left(limiter, "api", key).await
}

/// What stands in for a key where there is none.
fn stand_in() -> Key<'static> {
    Key::from(ME).to_fallback()
}

#[tokio::test]
async fn the_client_s_address_unless_said_otherwise() {
    let limiter = limiter(window(9));
    let server = Server::behind(limiter.enforcer("api").unwrap()).await;
    clients::get_with(server.address, &["x-forwarded-for: 192.0.2.1", "forwarded: for=192.0.2.1"]).await;
    assert_eq!((counted(&limiter, ME).await, counted(&limiter, "192.0.2.1").await), (1, 0));
    let (mut client, _server, limiter) = counted_by(keys::client()).await;
    client.get("/", &[]).await;
    assert_eq!(counted(&limiter, ME).await, 1);
}

#[tokio::test]
async fn the_first_value_of_a_header() {
    let (mut client, _server, limiter) = counted_by(keys::header(USER)).await;
    client.get("/", &["user: alice"]).await;
    client.get("/", &["user: bob"]).await;
    assert_eq!((counted(&limiter, "alice").await, counted(&limiter, "bob").await), (1, 1));
    // With none the address stands in, and nobody named like it pays.
    client.get("/", &[]).await;
    assert_eq!((counted(&limiter, stand_in()).await, counted(&limiter, ME).await), (1, 0));
    // Whoever checks a header reads the first, so a second one is no way out of a budget that is used up.
    client.get("/", &["user: alice", "user: alice"]).await;
    client.get("/", &["user: alice", "user: bob"]).await;
    assert_eq!((counted(&limiter, "alice").await, counted(&limiter, "bob").await), (3, 1));
    assert_eq!(counted(&limiter, stand_in()).await, 1);
}

#[tokio::test]
async fn nobody_can_name_itself_like_the_address_that_stands_in() {
    let limits = || RateLimit::new(limiter(window(1)).enforcer("api").unwrap());
    let other = HeaderName::from_static("other");
    // The last: who is known by neither of two names.
    let neither = keys::either(keys::header(other), keys::header(USER));
    for limits in [limits().key(either()), limits().key(keys::header(USER)), limits().key(neither)] {
        let server = Server::behind(limits).await;
        for name in [ME, "%a|127.0.0.1", "%a", "%c|127.0.0.1", "a|127.0.0.1", "%25a|127.0.0.1"] {
            let user = format!("user: {name}");
            assert_eq!(clients::get_with(server.address, &[&user]).await.status, 200, "{name}");
            assert_eq!(clients::get_with(server.address, &[&user]).await.status, 429, "{name}");
        }
        // All of them are used up, and the address has its own.
        assert_eq!(clients::get(server.address).await.status, 200);
        assert_eq!(clients::get(server.address).await.status, 429);
    }
}

fn either() -> impl Fn(&RequestHead<'_>) -> Option<Key<'static>> + Clone + Send + Sync + 'static {
    keys::either(keys::header(USER), keys::client())
}

#[tokio::test]
async fn the_user_or_else_the_address() {
    let (mut client, _server, limiter) = counted_by(either()).await;
    client.get("/", &["user: alice"]).await;
    client.get("/", &[]).await;
    assert_eq!((counted(&limiter, "alice").await, counted(&limiter, Key::from(ME).to_reserved()).await), (1, 1));
}

#[tokio::test]
async fn two_keys_together_and_neither_alone() {
    let (mut client, _server, limiter) = counted_by(keys::both(keys::header(USER), keys::path())).await;
    client.get("/a?x=1", &["user: alice"]).await;
    client.get("/b", &["user: alice"]).await;
    client.get("/b", &[]).await;
    assert_eq!(counted(&limiter, ("alice", "/a")).await, 1);
    assert_eq!(counted(&limiter, ("alice", "/b")).await, 1);
    assert_eq!(counted(&limiter, stand_in()).await, 1);
    // What looks like two parts is one.
    client.get("/c", &["user: alice|/a"]).await;
    assert_eq!((counted(&limiter, ("alice", "/a")).await, counted(&limiter, ("alice|/a", "/c")).await), (1, 1));
}

#[tokio::test]
async fn an_address_that_stands_in_stays_set_apart_beside_another_part() {
    #[derive(Clone)]
    struct User(String, String);

    /// Who the user is, as a tenant and a name that anybody could register.
    async fn sign_in(mut request: Request) -> Request {
        let part = |name: &str| Some(request.headers().get(name)?.to_str().ok()?.to_owned());
        if let (Some(tenant), Some(name)) = (part("tenant"), part("user")) {
            request.extensions_mut().insert(User(tenant, name));
        }
        request
    }

    let limiter = limiter(window(1));
    let user = keys::extension(|User(tenant, name): &User| Key::from((tenant, name)).into_owned());
    let key = keys::both(keys::either(user, keys::client()), keys::path());
    let layer = RateLimitLayer::new(RateLimit::new(limiter.enforcer("api").unwrap()).key(key));
    let router = Router::new().fallback(|| async { "ok" }).layer(layer).layer(map_request(sign_in));
    let server = Server::router(router).await;
    for tenant in ["%a", "%25a", "a"] {
        let headers = [&*format!("tenant: {tenant}"), "user: 127.0.0.1"];
        assert_eq!(clients::get_with(server.address, &headers).await.status, 200, "{tenant}");
        assert_eq!(clients::get_with(server.address, &headers).await.status, 429, "{tenant}");
    }
    assert_eq!(clients::get(server.address).await.status, 200);
    assert_eq!(clients::get(server.address).await.status, 429);
}

#[tokio::test]
async fn the_template_of_the_route_and_never_the_path() {
    for by_route in [false, true] {
        let limiter = limiter(window(9));
        let layer = RateLimitLayer::new(RateLimit::new(limiter.enforcer("api").unwrap()).key(keys::route()));
        let router = Router::new().route("/users/{id}", get(|| async { "ok" })).route("/posts/{id}", get(|| async {}));
        let router = if by_route { router.route_layer(layer) } else { router.layer(layer) };
        let server = Server::router(router).await;
        let mut client = Raw::connect(server.address).await;
        for path in ["/users/1", "/users/2?x", "/users/%7Bid%7D", "/posts/1"] {
            assert_eq!(client.get(path, &[]).await.status, 200);
        }
        assert_eq!(client.get("/made/up", &[]).await.status, 404);
        assert_eq!(counted(&limiter, "/users/{id}").await, 3);
        assert_eq!(counted(&limiter, "/posts/{id}").await, 1);
        // Around the routes only, a request that none of them takes does not come by.
        assert_eq!(counted(&limiter, stand_in()).await, if by_route { 0 } else { 1 });
    }
}

#[tokio::test]
async fn what_an_outer_layer_has_put_there() {
    #[derive(Clone)]
    struct UserId(u64);

    let limiter = limiter(window(9));
    let by_user =
        RateLimit::new(limiter.enforcer("api").unwrap()).key(keys::extension(|user: &UserId| Key::from(user.0)));
    let router = Router::new().fallback(|| async { "ok" }).layer(RateLimitLayer::new(by_user));
    let known = Server::router(router.clone().layer(Extension(UserId(42)))).await;
    let unknown = Server::router(router).await;
    clients::get(known.address).await;
    clients::get(unknown.address).await;
    assert_eq!((counted(&limiter, 42_u64).await, counted(&limiter, stand_in()).await), (1, 1));
}

#[tokio::test]
async fn everybody_together() {
    let (mut client, _server, limiter) = counted_by(keys::global()).await;
    client.get("/", &[]).await;
    assert_eq!((counted(&limiter, Key::GLOBAL).await, counted(&limiter, ME).await), (1, 0));
}
