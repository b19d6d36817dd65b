//! The keys of requests.

use axum::extract::Request;
use axum::middleware::map_request;
use axum::routing::get;
use axum::{Extension, Router};
use tidegate::http::{HeaderName, RateLimit, RequestHead, keys};
use tidegate::tower::RateLimitLayer;
use tidegate::{Key, Limiter};

use crate::clients::{self, RawClient};
use crate::support::{LOOPBACK, Server, left, limiter, window};

const USER: HeaderName = HeaderName::from_static("user");

/// Serves behind the limit `api`, nine a minute, with a key function. Returns a client, the server and the limiter.
async fn serve_keyed_by(
    key: impl Fn(&RequestHead<'_>) -> Option<Key<'static>> + Send + Sync + 'static,
) -> (RawClient, Server, Limiter) {
    let limiter = limiter(window(9));
    let server = Server::behind(RateLimit::new(limiter.enforcer("api").unwrap()).key(key)).await;
    (RawClient::connect(server.address).await, server, limiter)
}

/// Returns how many requests were counted under a key.
async fn requests_of<'a>(limiter: &'a Limiter, key: impl Into<Key<'a>>) -> u64 {
    9 - left(limiter, "api", key).await
}

/// The key of requests for which the key function returns none.
fn fallback_key() -> Key<'static> {
    Key::from(LOOPBACK).to_fallback()
}

#[tokio::test]
async fn key_defaults_to_the_client_address() {
    let limiter = limiter(window(9));
    let server = Server::behind(limiter.enforcer("api").unwrap()).await;
    clients::get_with(server.address, &["x-forwarded-for: 192.0.2.1", "forwarded: for=192.0.2.1"]).await;
    assert_eq!((requests_of(&limiter, LOOPBACK).await, requests_of(&limiter, "192.0.2.1").await), (1, 0));
    let (mut client, _server, limiter) = serve_keyed_by(keys::client()).await;
    client.get("/", &[]).await;
    assert_eq!(requests_of(&limiter, LOOPBACK).await, 1);
}

#[tokio::test]
async fn header_key_is_the_first_value() {
    let (mut client, _server, limiter) = serve_keyed_by(keys::header(USER)).await;
    client.get("/", &["user: alice"]).await;
    client.get("/", &["user: bob"]).await;
    assert_eq!((requests_of(&limiter, "alice").await, requests_of(&limiter, "bob").await), (1, 1));
    // Without the header the fallback key is used, which differs from a header with the address.
    client.get("/", &[]).await;
    assert_eq!((requests_of(&limiter, fallback_key()).await, requests_of(&limiter, LOOPBACK).await), (1, 0));
    // Programs that authenticate by a header read the first, so a second one must not change the key.
    client.get("/", &["user: alice", "user: alice"]).await;
    client.get("/", &["user: alice", "user: bob"]).await;
    assert_eq!((requests_of(&limiter, "alice").await, requests_of(&limiter, "bob").await), (3, 1));
    assert_eq!(requests_of(&limiter, fallback_key()).await, 1);
}

#[tokio::test]
async fn header_value_cannot_collide_with_the_fallback_key() {
    let limits = || RateLimit::new(limiter(window(1)).enforcer("api").unwrap());
    let other = HeaderName::from_static("other");
    // The last falls back after both headers.
    let neither = keys::either(keys::header(other), keys::header(USER));
    for limits in [limits().key(user_or_client()), limits().key(keys::header(USER)), limits().key(neither)] {
        let server = Server::behind(limits).await;
        for name in [LOOPBACK, "%a|127.0.0.1", "%a", "%c|127.0.0.1", "a|127.0.0.1", "%25a|127.0.0.1"] {
            let user = format!("user: {name}");
            assert_eq!(clients::get_with(server.address, &[&user]).await.status, 200, "{name}");
            assert_eq!(clients::get_with(server.address, &[&user]).await.status, 429, "{name}");
        }
        // The names are exhausted, and the address has its own quota.
        assert_eq!(clients::get(server.address).await.status, 200);
        assert_eq!(clients::get(server.address).await.status, 429);
    }
}

fn user_or_client() -> impl Fn(&RequestHead<'_>) -> Option<Key<'static>> + Clone + Send + Sync + 'static {
    keys::either(keys::header(USER), keys::client())
}

#[tokio::test]
async fn either_key_prefers_the_first() {
    let (mut client, _server, limiter) = serve_keyed_by(user_or_client()).await;
    client.get("/", &["user: alice"]).await;
    client.get("/", &[]).await;
    assert_eq!(
        (requests_of(&limiter, "alice").await, requests_of(&limiter, Key::from(LOOPBACK).to_reserved()).await),
        (1, 1)
    );
}

#[tokio::test]
async fn both_joins_two_keys() {
    let (mut client, _server, limiter) = serve_keyed_by(keys::both(keys::header(USER), keys::path())).await;
    client.get("/a?x=1", &["user: alice"]).await;
    client.get("/b", &["user: alice"]).await;
    client.get("/b", &[]).await;
    assert_eq!(requests_of(&limiter, ("alice", "/a")).await, 1);
    assert_eq!(requests_of(&limiter, ("alice", "/b")).await, 1);
    assert_eq!(requests_of(&limiter, fallback_key()).await, 1);
    // A separator in a value does not split it.
    client.get("/c", &["user: alice|/a"]).await;
    assert_eq!((requests_of(&limiter, ("alice", "/a")).await, requests_of(&limiter, ("alice|/a", "/c")).await), (1, 1));
}

#[tokio::test]
async fn reserved_address_stays_distinct_in_a_joined_key() {
    #[derive(Clone)]
    struct User(String, String);

    /// Inserts the user: a tenant and a name, which clients choose.
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
async fn route_key_is_the_template_and_never_the_path() {
    for by_route in [false, true] {
        let limiter = limiter(window(9));
        let layer = RateLimitLayer::new(RateLimit::new(limiter.enforcer("api").unwrap()).key(keys::route()));
        let router = Router::new().route("/users/{id}", get(|| async { "ok" })).route("/posts/{id}", get(|| async {}));
        let router = if by_route { router.route_layer(layer) } else { router.layer(layer) };
        let server = Server::router(router).await;
        let mut client = RawClient::connect(server.address).await;
        for path in ["/users/1", "/users/2?x", "/users/%7Bid%7D", "/posts/1"] {
            assert_eq!(client.get(path, &[]).await.status, 200);
        }
        assert_eq!(client.get("/made/up", &[]).await.status, 404);
        assert_eq!(requests_of(&limiter, "/users/{id}").await, 3);
        assert_eq!(requests_of(&limiter, "/posts/{id}").await, 1);
        // A layer around the routes only does not see a request that no route matches.
        assert_eq!(requests_of(&limiter, fallback_key()).await, if by_route { 0 } else { 1 });
    }
}

#[tokio::test]
async fn extension_key_comes_from_an_outer_layer() {
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
    assert_eq!((requests_of(&limiter, 42_u64).await, requests_of(&limiter, fallback_key()).await), (1, 1));
}

#[tokio::test]
async fn global_key_is_shared_by_all_clients() {
    let (mut client, _server, limiter) = serve_keyed_by(keys::global()).await;
    client.get("/", &[]).await;
    assert_eq!((requests_of(&limiter, Key::GLOBAL).await, requests_of(&limiter, LOOPBACK).await), (1, 0));
}
