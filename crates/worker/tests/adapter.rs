//! The adapter suite over a gate in front of a Worker's handler. A server plays the platform.

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
use tidegate_testkit::adapters::{Adapter, AddressSender, App};
use tidegate_worker::handle_with_gate;
use tokio::net::TcpListener;

struct WorkerAdapter;

impl Adapter for WorkerAdapter {
    const ROUTES: bool = false;

    fn serve(app: App, sender: AddressSender) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            sender.send(listener.local_addr().unwrap());
            while let Ok((stream, peer)) = listener.accept().await {
                let (app, gate) = (app.clone(), app.gate());
                let service = service_fn(move |mut request: Request<Incoming>| {
                    // The platform replaces this header with the real address of the client.
                    let client = HeaderValue::from_str(&peer.ip().to_string()).unwrap();
                    request.headers_mut().insert("cf-connecting-ip", client);
                    let (app, gate) = (app.clone(), gate.clone());
                    async move {
                        handle_with_gate(&gate, request, async |request| Ok::<_, Infallible>(answer(&app, &request)))
                            .await
                    }
                });
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
    }
}

fn answer(app: &App, request: &Request<Incoming>) -> Response<UnsyncBoxBody<Bytes, std::io::Error>> {
    let full_body = |text: String| Full::from(text).map_err(|never| match never {}).boxed_unsync();
    match request.uri().path() {
        "/fails" => {
            Response::builder().status(401).header("x-app", "mine").body(full_body(app.failure().into())).unwrap()
        }
        "/outcome" => Response::new(full_body(app.outcome(request.extensions().get::<Outcome>()))),
        "/stream" => Response::new(StreamBody::new(app.stream().map(|piece| piece.map(Frame::data))).boxed_unsync()),
        _ => Response::new(full_body(app.page().into())),
    }
}

adapter_tests!(suite, WorkerAdapter);
