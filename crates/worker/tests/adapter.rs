//! The adapters' suite: a Worker's handler behind a gate, as the platform would hand requests to it.

use std::convert::Infallible;

use bytes::Bytes;
use futures_util::StreamExt;
use http::{HeaderValue, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tidegate::enforce::Outcome;
use tidegate_testkit::adapter_tests;
use tidegate_testkit::adapters::{Adapter, App, Listening};
use tidegate_worker::limited;
use tokio::net::TcpListener;

struct Worker;

impl Adapter for Worker {
    const ROUTES: bool = false;

    fn serve(app: App, listening: Listening) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            listening.at(listener.local_addr().unwrap());
            while let Ok((stream, peer)) = listener.accept().await {
                let (app, gate) = (app.clone(), app.gate());
                let service = service_fn(move |mut request: Request<Incoming>| {
                    // What the platform does: whatever a client says there gives way to who it is.
                    let client = HeaderValue::from_str(&peer.ip().to_string()).unwrap();
                    request.headers_mut().insert("cf-connecting-ip", client);
                    let (app, gate) = (app.clone(), gate.clone());
                    async move {
                        limited(&gate, request, async |request| Ok::<_, Infallible>(answer(&app, &request))).await
                    }
                });
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
    }
}

fn answer(app: &App, request: &Request<Incoming>) -> Response<UnsyncBoxBody<Bytes, std::io::Error>> {
    let whole = |text: String| Full::from(text).map_err(|never| match never {}).boxed_unsync();
    match request.uri().path() {
        "/fails" => Response::builder().status(401).header("x-app", "mine").body(whole(app.failure().into())).unwrap(),
        "/told" => Response::new(whole(app.told(request.extensions().get::<Outcome>()))),
        "/stream" => Response::new(StreamBody::new(app.stream().map(|piece| piece.map(Frame::data))).boxed_unsync()),
        _ => Response::new(whole(app.page().into())),
    }
}

adapter_tests!(suite, Worker);
