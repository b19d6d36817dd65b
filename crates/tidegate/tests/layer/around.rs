//! A layer around a whole router, with nothing of axum's in between.

use axum::Router;
use axum::routing::get;
use tidegate::Limiter;
use tidegate::enforce::Outcome;
use tidegate::http::{RateLimit, keys};
use tidegate::tower::RateLimitLayer;
use tower::Layer;

use crate::clients::{Raw, Reply};
use crate::support::{ME, Server, left, limiter, waiting_limiter, window};

/// Says what is left for whom it serves.
fn router() -> Router {
    let left = |outcome: Outcome| async move { outcome.rulings()[0].decision().remaining().to_string() };
    Router::new().route("/", get(left))
}

fn layer(limiter: &Limiter) -> RateLimitLayer {
    RateLimitLayer::new(RateLimit::new((limiter, "api")).extension())
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

#[tokio::test]
async fn it_answers_as_a_layer_of_the_router() {
    for new in [limiter, waiting_limiter] {
        let (inside, around) = (new(window(2)), new(window(2)));
        let of_router = replies(&Server::router(router().layer(layer(&inside))).await).await;
        let of_service = replies(&Server::service(layer(&around).layer(router())).await).await;
        assert_eq!(of_service, of_router);
        assert_eq!(of_service.iter().map(|reply| reply.status).collect::<Vec<_>>(), [200, 404, 429]);
        assert_eq!(of_service[0].body, "1");
        assert_eq!(left(&around, "api", ME).await, 0);
    }
}

#[tokio::test]
async fn it_does_not_know_the_route() {
    let limiter = limiter(window(2));
    let layer = RateLimitLayer::new(RateLimit::new((&limiter, "api")).key(keys::route()));
    let server = Server::service(layer.layer(Router::new().route("/", get(|| async { "ok" })))).await;
    // So it is the client that is counted, on every route together.
    let statuses = replies(&server).await.into_iter().map(|reply| reply.status);
    assert_eq!(statuses.collect::<Vec<_>>(), [200, 404, 429]);
}
