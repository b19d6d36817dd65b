//! HTTP connections, whatever is asked over them: the API and gRPC alike.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use http::header::{CONNECTION, HeaderValue};
use http::{HeaderMap, Request, Response};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tower::ServiceExt;
use tracing::debug;

use super::answer::Answer;
use super::gate::Gate;
use super::patient::Patient;
use super::port::Port;
use super::shutdown::Shutdown;

/// How long a client may take to send the head of a request, or to read what it is sent, and how long a connection may
/// lie idle.
const HEAD: Duration = Duration::from_secs(30);
/// How much of a head is read.
const HEAD_BYTES: usize = 64 << 10;
/// How many requests of one connection are under way at once.
const STREAMS: u32 = 200;
/// How much of a request, and of all requests of a connection, may be on its way here.
const STREAM_WINDOW: u32 = 64 << 10;
const CONNECTION_WINDOW: u32 = 1 << 20;

/// What answers the requests that come so often that the way through a router would be felt.
pub(crate) trait AtOnce: Clone + Send + Sync + 'static {
    /// What is known of a request by its head.
    type Known: Send;

    /// Whether it answers this one; the router does otherwise.
    fn knows(&self, request: &Request<Incoming>) -> Option<Self::Known>;

    /// The answer.
    fn answer(
        &self,
        known: Self::Known,
        body: Incoming,
        headers: HeaderMap,
    ) -> impl Future<Output = Response<Answer>> + Send;
}

/// Answers requests on `port` until it ends, and those that are under way then. Without anything that answers `at_once`
/// all go through the router.
pub(crate) async fn serve(
    port: Port,
    at_once: Option<impl AtOnce>,
    router: Router,
    gate: Arc<Gate>,
    shutdown: Shutdown,
) {
    let builder = builder();
    let name = port.name;
    port.run(shutdown.clone(), move |stream, peer: SocketAddr| {
        let (at_once, router, builder, gate) = (at_once.clone(), router.clone(), builder.clone(), Arc::clone(&gate));
        let mut shutdown = shutdown.clone();
        async move {
            let service = hyper::service::service_fn(move |request: Request<Incoming>| {
                let (gate, version) = (Arc::clone(&gate), request.version());
                let known = at_once.as_ref().and_then(|at_once| Some((at_once.clone(), at_once.knows(&request)?)));
                let asked = match known {
                    Some((at_once, known)) => {
                        let (head, body) = request.into_parts();
                        Asked::AtOnce(at_once, known, body, head.headers)
                    }
                    None => {
                        let mut request = request.map(Body::new);
                        request.extensions_mut().insert(ConnectInfo(peer));
                        Asked::Router(Box::pin(router.clone().oneshot(request)))
                    }
                };
                async move {
                    let mut answer = match asked {
                        Asked::AtOnce(at_once, known, body, headers) => at_once.answer(known, body, headers).await,
                        // On the heap, so that the others are quicker to move.
                        Asked::Router(answer) => answer.await?.map(Answer::Routed),
                    };
                    // So that a client in the middle of its requests does not send one into a connection that closes.
                    if gate.is_draining() && version < http::Version::HTTP_2 {
                        answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                    }
                    Ok::<_, Infallible>(answer)
                }
            });
            let connection = builder.serve_connection(TokioIo::new(Patient::new(stream, HEAD)), service);
            let mut connection = std::pin::pin!(connection);
            let ended = tokio::select! {
                ended = connection.as_mut() => ended,
                () = shutdown.begun() => {
                    connection.as_mut().graceful_shutdown();
                    connection.await
                }
            };
            if let Err(error) = ended {
                debug!(port = name, %peer, %error, "a connection ended early");
            }
        }
    })
    .await;
}

/// Who answers a request.
enum Asked<A: AtOnce, F> {
    AtOnce(A, A::Known, Incoming, HeaderMap),
    Router(Pin<Box<F>>),
}

fn builder() -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD).max_buf_size(HEAD_BYTES);
    let mut http2 = builder.http2();
    http2.timer(TokioTimer::new()).keep_alive_interval(HEAD).max_concurrent_streams(STREAMS);
    http2.max_header_list_size(HEAD_BYTES as u32).max_send_buf_size(STREAM_WINDOW as usize);
    http2.initial_stream_window_size(STREAM_WINDOW).initial_connection_window_size(CONNECTION_WINDOW);
    builder
}
