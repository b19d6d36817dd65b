//! hyper without a framework, and a service without a server.

use std::convert::Infallible;
use std::net::IpAddr;

use axum::body::Bytes;
use axum::http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tidegate::http::PeerAddr;
use tidegate::tower::RateLimitLayer;
use tower::{ServiceBuilder, ServiceExt, service_fn};

use crate::clients::{self, RawClient};
use crate::support::{LOOPBACK, Server, limiter, waiting_limiter, window};

#[tokio::test]
async fn peer_addr_extension_identifies_clients_of_plain_hyper() {
    for limiter in [limiter(window(2)), waiting_limiter(window(2))] {
        let layer = RateLimitLayer::new(limiter.enforcer("api").unwrap());
        let server = Server::start(|listener| async move {
            while let Ok((stream, peer)) = listener.accept().await {
                let service = ServiceBuilder::new()
                    .map_request(move |mut request: Request<Incoming>| {
                        request.extensions_mut().insert(PeerAddr(peer.ip()));
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
        let mut client = RawClient::connect(server.address).await;
        for limit in [r#""api";r=1;t=60"#, r#""api";r=0;t=60"#] {
            let reply = client.get("/", &[]).await;
            assert_eq!((reply.status, &*reply.body, reply.header("ratelimit")), (200, "ok", Some(limit)));
        }
        let reply = clients::get(server.address).await;
        assert_eq!((reply.status, reply.header("retry-after")), (429, Some("60")));
        assert_eq!(reply.problem()["retry_after_ms"], 60_000);
    }
}

/// The body of `lambda_http` as far as it matters here: it can be created from text, but not from `Bytes`.
#[derive(Debug, PartialEq)]
enum LambdaBody {
    Text(String),
}

impl From<String> for LambdaBody {
    fn from(text: String) -> Self {
        LambdaBody::Text(text)
    }
}

#[tokio::test]
async fn body_only_has_to_convert_from_text() {
    let limiter = limiter(window(1));
    let service = ServiceBuilder::new().layer(RateLimitLayer::new(limiter.enforcer("api").unwrap())).service(
        service_fn(async |_: Request<()>| Ok::<_, Infallible>(Response::new(LambdaBody::Text("ok".to_owned())))),
    );
    let ask = || {
        let mut request = Request::new(());
        request.extensions_mut().insert(PeerAddr(LOOPBACK.parse::<IpAddr>().unwrap()));
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
