//! The adapter suite in hyper without a framework.

use std::convert::Infallible;

use axum::body::Body;
use axum::http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tidegate::enforce::Outcome;
use tidegate::http::PeerAddr;
use tidegate::tower::AdmissionLayer;
use tidegate_testkit::adapter_tests;
use tidegate_testkit::adapters::{Adapter, AddressSender, App};
use tower::{ServiceBuilder, service_fn};

struct Hyper;

impl Adapter for Hyper {
    const ROUTES: bool = false;

    fn serve(app: App, sender: AddressSender) {
        let gate = AdmissionLayer::from(app.gate());
        sender.serve_on_tokio(async |listener| {
            while let Ok((stream, peer)) = listener.accept().await {
                let app = app.clone();
                let service = ServiceBuilder::new()
                    .map_request(move |mut request: Request<Incoming>| {
                        request.extensions_mut().insert(PeerAddr(peer.ip()));
                        request
                    })
                    .layer(gate.clone())
                    .service(service_fn(move |request: Request<Incoming>| {
                        let response = answer(&app, &request);
                        async { Ok::<_, Infallible>(response) }
                    }));
                let service = TowerToHyperService::new(service);
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
    }
}

fn answer(app: &App, request: &Request<Incoming>) -> Response<Body> {
    match request.uri().path() {
        "/fails" => Response::builder().status(401).header("x-app", "mine").body(Body::from(app.failure())).unwrap(),
        "/outcome" => Response::new(Body::from(app.outcome(request.extensions().get::<Outcome>()))),
        "/stream" => Response::new(Body::from_stream(app.stream())),
        _ => Response::new(Body::from(app.page())),
    }
}

adapter_tests!(suite, Hyper);
