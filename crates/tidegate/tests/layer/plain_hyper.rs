//! hyper without a framework, and services that no server runs.

use std::borrow::Cow;
use std::convert::Infallible;
use std::net::IpAddr;

use axum::body::Bytes;
use axum::http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tidegate::enforce::Outcome;
use tidegate::http::{HeaderMap, Peer, RateLimit};
use tidegate::tower::{Protocol, RateLimitLayer};
use tower::{ServiceBuilder, ServiceExt, service_fn};

use crate::clients::{self, Raw};
use crate::support::{ME, Server, limiter, waiting_limiter, window};

#[tokio::test]
async fn hyper_is_told_the_peer_by_whoever_accepts_the_connection() {
    for limiter in [limiter(window(2)), waiting_limiter(window(2))] {
        let layer = RateLimitLayer::new((&limiter, "api"));
        let server = Server::start(|listener| async move {
            while let Ok((stream, peer)) = listener.accept().await {
                let service = ServiceBuilder::new()
                    .map_request(move |mut request: Request<Incoming>| {
                        request.extensions_mut().insert(Peer(peer.ip()));
                        request
                    })
                    .layer(layer.clone())
                    .service(service_fn(async |_: Request<Incoming>| {
                        Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"ok"))))
                    }));
                let service = TowerToHyperService::new(service);
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        })
        .await;
        // One connection for two requests, and one for the third.
        let mut client = Raw::connect(server.address).await;
        for limit in [r#""api";r=1;t=60"#, r#""api";r=0;t=60"#] {
            let reply = client.get("/", &[]).await;
            assert_eq!((reply.status, &*reply.body, reply.header("ratelimit")), (200, "ok", Some(limit)));
        }
        let reply = clients::get(server.address).await;
        assert_eq!((reply.status, reply.header("retry-after")), (429, Some("60")));
        assert_eq!(reply.problem()["retry_after_ms"], 60_000);
    }
}

/// The body of `lambda_http`, as far as it matters here: it can be made of text and of vectors, and not of `Bytes`.
#[derive(Debug, PartialEq)]
enum LambdaBody {
    Text(String),
}

impl From<Cow<'static, str>> for LambdaBody {
    fn from(text: Cow<'static, str>) -> Self {
        LambdaBody::Text(text.into_owned())
    }
}

/// What such a service answers with.
#[derive(Clone)]
struct Lambda;

impl Protocol<LambdaBody> for Lambda {
    fn answer(&self, rate_limit: &RateLimit, outcome: &Outcome) -> Response<LambdaBody> {
        rate_limit
            .answer(outcome)
            .map(|body| String::from_utf8_lossy(&body).into_owned())
            .map(Cow::Owned)
            .map(Into::into)
    }

    fn tell(&self, rate_limit: &RateLimit, outcome: &Outcome, headers: &mut HeaderMap) {
        rate_limit.write_headers(outcome, headers);
    }
}

#[tokio::test]
async fn a_body_that_cannot_be_made_of_bytes_takes_a_protocol_of_a_few_lines() {
    let limiter = limiter(window(1));
    let service = ServiceBuilder::new().layer(RateLimitLayer::new((&limiter, "api")).answered_by(Lambda)).service(
        service_fn(async |_: Request<()>| Ok::<_, Infallible>(Response::new(LambdaBody::Text("ok".to_owned())))),
    );
    let ask = || {
        let mut request = Request::new(());
        request.extensions_mut().insert(Peer(ME.parse::<IpAddr>().unwrap()));
        service.clone().oneshot(request)
    };
    let response = ask().await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["ratelimit"], r#""api";r=0;t=60"#);
    let response = ask().await.unwrap();
    assert_eq!(response.status(), 429);
    assert_eq!(response.headers()["retry-after"], "60");
    let LambdaBody::Text(body) = response.into_body();
    assert!(body.contains(r#""violated-policies":["api"]"#), "{body}");
}
