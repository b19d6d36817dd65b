//! A layer around a whole router, outside of axum.

use std::convert::Infallible;
use std::future::{Ready, ready};

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use axum::routing::get;
use tidegate::Limiter;
use tidegate::enforce::Outcome;
use tidegate::http::{PeerAddr, RateLimit, keys};
use tidegate::tower::RateLimitLayer;
use tower::{Layer, ServiceExt, service_fn};

use crate::clients::{RawClient, Reply, http1, http2, send};
use crate::support::{LOOPBACK, Server, left, limiter, waiting_limiter, window};

/// A router that answers with the remaining quota, if it has the outcome.
fn router() -> Router {
    let left = |outcome: Option<Outcome>| async move {
        outcome.map_or("ok".to_owned(), |outcome| outcome.limit_decisions()[0].decision().remaining().to_string())
    };
    // With its state. Otherwise axum would build its routes again for every request.
    Router::new().route("/", get(left)).with_state(())
}

/// Returns the replies to several requests, one of which has a forged address.
async fn replies(server: &Server) -> Vec<Reply> {
    let mut connection = RawClient::connect(server.address).await;
    let mut replies = Vec::new();
    for (path, header) in [("/", "accept: */*"), ("/nowhere", "accept: */*"), ("/", "x-forwarded-for: 203.0.113.9")] {
        let mut reply = connection.get(path, &[header]).await;
        // The router adds a length after its layers, so that header comes last there.
        reply.lines.sort();
        replies.push(reply);
    }
    replies
}

fn statuses(replies: &[Reply]) -> Vec<u16> {
    replies.iter().map(|reply| reply.status).collect()
}

type PolicyFn = fn(&Limiter) -> RateLimit;

#[tokio::test]
async fn layer_around_the_router_answers_like_a_layer_inside_it() {
    let limits: [(PolicyFn, &str); 3] = [
        (|limiter| RateLimit::new(limiter.enforcer("api").unwrap()), "ok"),
        (|limiter| RateLimit::new(limiter.enforcer("api").unwrap()).skip(|_| false), "ok"),
        (|limiter| RateLimit::new(limiter.enforcer("api").unwrap()).extension(), "1"),
    ];
    for (limits, body) in limits {
        for new in [limiter, waiting_limiter] {
            let (inside, around) = (new(window(2)), new(window(2)));
            let of_router = router().layer(RateLimitLayer::new(limits(&inside)));
            let of_service = RateLimitLayer::new(limits(&around)).layer(router());
            let of_service = replies(&Server::service(of_service).await).await;
            assert_eq!(of_service, replies(&Server::router(of_router).await).await);
            assert_eq!(statuses(&of_service), [200, 404, 429]);
            assert_eq!(of_service[0].body, body);
            // The second reuses what the first computed.
            assert_eq!(of_service[0].header("ratelimit"), Some("\"api\";r=1;t=60"));
            assert_eq!(of_service[1].header("ratelimit"), Some("\"api\";r=0;t=60"));
            assert_eq!(left(&around, "api", LOOPBACK).await, 0);
        }
    }
}

#[tokio::test]
async fn layer_around_the_router_does_not_know_the_route() {
    let limiter = limiter(window(2));
    let layer = RateLimitLayer::new(RateLimit::new(limiter.enforcer("api").unwrap()).key(keys::route()));
    let replies = replies(&Server::service(layer.layer(router())).await).await;
    // The fallback key counts the client, on all routes together.
    assert_eq!(statuses(&replies), [200, 404, 429]);
}

#[tokio::test]
async fn head_denial_has_all_headers_and_no_body() {
    for new in [limiter, waiting_limiter] {
        let limiter = new(window(1));
        let server = Server::service(RateLimitLayer::new(limiter.enforcer("api").unwrap()).layer(router())).await;
        let admitted = send(http1().get(server.url("/"))).await;
        assert_eq!(admitted.status, 200);
        for client in [http1(), http2()] {
            let denied = send(client.get(server.url("/"))).await;
            assert_eq!(denied.status, 429);
            assert_eq!(denied.header("content-length"), Some(&*denied.body.len().to_string()));
            let head = send(client.head(server.url("/"))).await;
            let sorted = |mut lines: Vec<String>| {
                lines.sort();
                lines
            };
            assert_eq!((head.status, &*head.body), (429, ""));
            assert_eq!(sorted(head.lines), sorted(denied.lines));
        }
    }
}

#[tokio::test]
async fn panicking_service_leaves_the_layer_working() {
    let limiter = limiter(window(3));
    let panics = service_fn(|request: Request| -> Ready<Result<Response, Infallible>> {
        assert!(request.uri().path() != "/panic", "on purpose");
        ready(Ok(Response::new(Body::empty())))
    });
    let service = RateLimitLayer::new(limiter.enforcer("api").unwrap()).layer(panics);
    let ask = |path: &str| {
        let request = Request::builder().uri(path).extension(PeerAddr(LOOPBACK.parse().unwrap()));
        service.clone().oneshot(request.body(Body::empty()).unwrap())
    };
    // A first request fills a cache for later ones.
    ask("/").await.unwrap();
    assert!(tokio::spawn(ask("/panic")).await.unwrap_err().is_panic());
    assert_eq!(ask("/").await.unwrap().headers()["ratelimit"], "\"api\";r=0;t=60");
}
