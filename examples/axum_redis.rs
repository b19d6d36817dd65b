//! axum with limits on Redis that a whole fleet shares: free and premium users, two limits at once, and a custom
//! denial.
//!
//! `cargo run -p tidegate-examples --example axum_redis -- 127.0.0.1:3000 redis://127.0.0.1/`. Without the second
//! argument, the server is that of `TIDEGATE_REDIS_URL`.

use std::error::Error;
use std::net::SocketAddr;

use axum::extract::Request;
use axum::http::{HeaderValue, header};
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use axum::{Router, routing::get};
use tidegate::enforce::Outcome;
use tidegate::http::{RateLimit, keys};
use tidegate::redis::RedisStore;
use tidegate::resilience::Resilience;
use tidegate::tower::RateLimitLayer;
use tidegate::{Key, Limit, Limiter, OnStoreError, Quota, ceil_seconds, days, millis, seconds};

#[derive(Clone)]
struct User {
    name: &'static str,
    premium: bool,
}

/// Identifies the user. In your service, this is the code that checks tokens. No other code may add a `User` to a
/// request.
async fn authenticate(mut request: Request, next: Next) -> Response {
    match request.headers().get(header::AUTHORIZATION).map(HeaderValue::as_bytes) {
        Some(b"Bearer alices-token") => drop(request.extensions_mut().insert(User { name: "alice", premium: true })),
        Some(b"Bearer bobs-token") => drop(request.extensions_mut().insert(User { name: "bob", premium: false })),
        _ => {}
    }
    next.run(request).await
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:3000".to_owned());
    let redis = arguments.next().or_else(|| std::env::var("TIDEGATE_REDIS_URL").ok());
    let redis = redis.ok_or("which Redis? give an address as the second argument, such as redis://127.0.0.1/")?;

    // During an outage of Redis, every process limits on its own, by its share of the quota.
    let limit = |quota| Limit::new(quota).on_store_error(OnStoreError::Local);
    let limiter = Limiter::builder()
        .prefix(format!("example-{}", std::process::id())) // every run starts with new keys
        .limit("burst", limit(Quota::token_bucket(2, seconds(10))?))
        .limit("daily", limit(Quota::fixed_window(1_000, days(1))?))
        .store(RedisStore::connect(redis).await?)
        // Ten times the default timeout, for a machine that is busy with other work.
        .resilience(Resilience::default().timeout(millis(500)).expected_replicas(4))
        .build()?;

    // The request takes both limits or none of them. Premium users have the same limits with other quotas.
    let free = limiter.enforcer("burst")?.and("daily")?;
    let premium = limiter.enforcer("burst")?.with_quota(Quota::token_bucket(4, seconds(10))?);
    let premium = premium.and("daily")?.with_quota(Quota::fixed_window(100_000, days(1))?);

    let limits = RateLimit::pick(move |head| match head.extensions().get::<User>() {
        Some(user) if user.premium => premium.clone(),
        _ => free.clone(),
    })
    // The user, or else the client's address: clients that are not logged in do not share one budget.
    .key(keys::either(keys::extension(|user: &User| Key::from(user.name)), keys::client()))
    .skip(|head| head.is_preflight())
    .map_response(|outcome, mut response| {
        if let Outcome::Limited(limit_decisions) = outcome
            && let Some(wait) = limit_decisions.retry_after()
        {
            *response.body_mut() = format!("Slow down, please: {} s to go.\n", ceil_seconds(wait));
            response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
        }
        response
    });

    let app = Router::new()
        .route("/", get(|| async { "Hello!\n" }))
        .layer(RateLimitLayer::new(limits))
        // The outermost layer, so that it runs first.
        .layer(from_fn(authenticate));
    let listener = tokio::net::TcpListener::bind(address).await?;
    println!("Try: curl -i -H 'authorization: Bearer alices-token' http://{}/", listener.local_addr()?);
    Ok(axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?)
}
