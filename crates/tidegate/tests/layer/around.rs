//! A layer around a whole router, with nothing of axum's in between.

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

use crate::clients::{Raw, Reply, http1, http2, send};
use crate::support::{ME, Server, left, limiter, waiting_limiter, window};

/// Says what is left for whom it serves, if it was told.
fn router() -> Router {
    let left = |outcome: Option<Outcome>| async move {
        outcome.map_or("ok".to_owned(), |outcome| outcome.limit_decisions()[0].decision().remaining().to_string())
    };
    // With its state, or axum would make its routes anew for every request.
    Router::new().route("/", get(left)).with_state(())
}

/// What is answered to some requests in turn, one of which calls itself another client.
async fn replies(server: &Server) -> Vec<Reply> {
    let mut connection = Raw::connect(server.address).await;
    let mut replies = Vec::new();
    for (path, header) in [("/", "accept: */*"), ("/nowhere", "accept: */*"), ("/", "x-forwarded-for: 203.0.113.9")] {
        let mut reply = connection.get(path, &[header]).await;
        // The router adds a length to what its layers have made, so that comes last there.
        reply.lines.sort();
        replies.push(reply);
    }
    replies
}

fn statuses(replies: &[Reply]) -> Vec<u16> {
    replies.iter().map(|reply| reply.status).collect()
}

type Limits = fn(&Limiter) -> RateLimit;

#[tokio::test]
async fn it_answers_as_a_layer_of_the_router() {
    let limits: [(Limits, &str); 3] = [
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
            // The second is told by what was kept of the first.
            assert_eq!(of_service[0].header("ratelimit"), Some("\"api\";r=1;t=60"));
            assert_eq!(of_service[1].header("ratelimit"), Some("\"api\";r=0;t=60"));
            assert_eq!(left(&around, "api", ME).await, 0);
        }
    }
}

#[tokio::test]
async fn it_does_not_know_the_route() {
    let limiter = limiter(window(2));
    let layer = RateLimitLayer::new(RateLimit::new(limiter.enforcer("api").unwrap()).key(keys::route()));
    let replies = replies(&Server::service(layer.layer(router())).await).await;
    // So it is the client that is counted, on every route together.
    assert_eq!(statuses(&replies), [200, 404, 429]);
}

#[tokio::test]
async fn a_denial_of_head_is_all_but_the_body() {
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
async fn a_service_that_panics_takes_nothing_with_it() {
    let limiter = limiter(window(3));
    let panics = service_fn(|request: Request| -> Ready<Result<Response, Infallible>> {
        assert!(request.uri().path() != "/panic", "as asked");
        ready(Ok(Response::new(Body::empty())))
    });
    let service = RateLimitLayer::new(limiter.enforcer("api").unwrap()).layer(panics);
    let ask = |path: &str| {
        let request = Request::builder().uri(path).extension(PeerAddr(ME.parse().unwrap()));
        service.clone().oneshot(request.body(Body::empty()).unwrap())
    };
    // What is said of a request is put together before its service is called, once that is known of another.
    ask("/").await.unwrap();
    assert!(tokio::spawn(ask("/panic")).await.unwrap_err().is_panic());
    assert_eq!(ask("/").await.unwrap().headers()["ratelimit"], "\"api\";r=0;t=60");
}
