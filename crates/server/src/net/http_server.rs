//! The HTTP server of a port: a fast path for the most frequent requests, and a router for all others.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use http::header::{CONNECTION, HeaderValue};
use http::{Request, Response};
use hyper::body::Incoming;
use tower::ServiceExt;
use tracing::debug;

use super::body::ResponseBody;
use super::http_connection;
use super::listener::Listener;
use super::shutdown::Shutdown;

/// Answers the requests that are so frequent that the cost of a router would show.
pub(crate) trait FastPath: Clone + Send + Sync + 'static {
    /// Answers a request, or returns it for the router.
    #[expect(
        clippy::result_large_err,
        reason = "the error is the request on its way, and a box would cost each of them"
    )]
    fn try_answer(
        &self,
        request: Request<Incoming>,
    ) -> Result<impl Future<Output = Response<ResponseBody>> + Send + use<Self>, Request<Incoming>>;
}

/// Answers requests until the server ends, and those in flight then. Without a fast path, the router answers all.
pub(crate) async fn serve(
    listener: Listener,
    fast_path: Option<impl FastPath>,
    router: Router,
    draining: Arc<AtomicBool>,
    shutdown: Shutdown,
) {
    let name = listener.name;
    listener
        .run(shutdown.clone(), move |stream, peer: SocketAddr| {
            let (fast_path, router, draining) = (fast_path.clone(), router.clone(), Arc::clone(&draining));
            let mut shutdown = shutdown.clone();
            async move {
                let service = hyper::service::service_fn(move |request: Request<Incoming>| {
                    let (draining, version) = (Arc::clone(&draining), request.version());
                    let answer = match &fast_path {
                        Some(fast_path) => fast_path.try_answer(request),
                        None => Err(request),
                    };
                    // Boxed, so that requests on the fast path take less memory.
                    let answer = answer.map_err(|request| {
                        let mut request = request.map(Body::new);
                        request.extensions_mut().insert(ConnectInfo(peer));
                        Box::pin(router.clone().oneshot(request))
                    });
                    // On the heap, because the connection moves it.
                    Box::pin(async move {
                        let mut response = match answer {
                            Ok(fast) => fast.await,
                            Err(routed) => routed.await?.map(ResponseBody::routed),
                        };
                        // A client with requests in a row must not send one into a connection that closes.
                        if draining.load(Ordering::Relaxed) && version < http::Version::HTTP_2 {
                            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                        }
                        Ok::<_, Infallible>(response)
                    })
                });
                if let Err(error) = http_connection::serve(stream, service, &mut shutdown).await {
                    debug!(port = name, %peer, %error, "a connection ended early");
                }
            }
        })
        .await;
}
