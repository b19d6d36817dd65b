//! A route of axum's.

use axum::body::Body;
use axum::extract::Request;
use axum::routing::{MethodRouter, get};

use super::super::{Data, Router};
use crate::http::Incoming;

/// A route of axum's router on which WebSockets are opened, by [`Router::upgrade`].
///
/// ```
/// use tidegate::ws::{self, Router};
///
/// # fn example(router: Router<()>) -> axum::Router {
/// axum::Router::new().route("/ws", ws::route(router))
/// # }
/// ```
///
/// The address of the peer is known where the program is served with
/// `into_make_service_with_connect_info::<SocketAddr>()`.
pub fn route<D: Data, S: Clone + Send + Sync + 'static>(router: Router<D>) -> MethodRouter<S> {
    get(move |request: Request| async move {
        let peer = Incoming::of(&request).peer();
        router.upgrade(request, peer).await.map(Body::from)
    })
}
