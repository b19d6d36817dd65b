//! HTTP connections, whatever is asked over them: the API and gRPC alike.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use http::header::{CONNECTION, HeaderValue};
use http::{Request, Response};
use hyper::body::Incoming;
use tower::ServiceExt;
use tracing::debug;

use super::answer::Answer;
use super::connection;
use super::gate::Gate;
use super::port::Port;
use super::shutdown::Shutdown;

/// What answers the requests that come so often that the way through a router would be felt.
pub(crate) trait AtOnce: Clone + Send + Sync + 'static {
    /// What is known of a request by its head.
    type Known: Send;

    /// Whether it answers this one; the router does otherwise.
    fn knows(&self, request: &Request<Incoming>) -> Option<Self::Known>;

    /// The answer.
    fn answer(&self, known: Self::Known, body: Incoming) -> impl Future<Output = Response<Answer>> + Send;
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
    let name = port.name;
    port.run(shutdown.clone(), move |stream, peer: SocketAddr| {
        let (at_once, router, gate) = (at_once.clone(), router.clone(), Arc::clone(&gate));
        let mut shutdown = shutdown.clone();
        async move {
            let service = hyper::service::service_fn(move |request: Request<Incoming>| {
                let (gate, version) = (Arc::clone(&gate), request.version());
                let known = at_once.as_ref().and_then(|at_once| Some((at_once.clone(), at_once.knows(&request)?)));
                let asked = match known {
                    Some((at_once, known)) => Asked::AtOnce(at_once, known, request.into_body()),
                    None => {
                        let mut request = request.map(Body::new);
                        request.extensions_mut().insert(ConnectInfo(peer));
                        Asked::Router(Box::pin(router.clone().oneshot(request)))
                    }
                };
                // On the heap, where it stays while it is handed around.
                Box::pin(async move {
                    let mut answer = match asked {
                        Asked::AtOnce(at_once, known, body) => at_once.answer(known, body).await,
                        // Apart, so that the others take less room.
                        Asked::Router(answer) => answer.await?.map(Answer::routed),
                    };
                    // So that a client in the middle of its requests does not send one into a connection that closes.
                    if gate.is_draining() && version < http::Version::HTTP_2 {
                        answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                    }
                    Ok::<_, Infallible>(answer)
                })
            });
            let ended = connection::serve(stream, service, &mut shutdown).await;
            if let Err(error) = ended {
                debug!(port = name, %peer, %error, "a connection ended early");
            }
        }
    })
    .await;
}

/// Who answers a request.
enum Asked<A: AtOnce, F> {
    AtOnce(A, A::Known, Incoming),
    Router(Pin<Box<F>>),
}
