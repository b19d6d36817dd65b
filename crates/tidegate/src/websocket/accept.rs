//! Opening WebSockets: on accepted connections, from HTTP upgrades, and as an axum route.

use std::io;
use std::net::IpAddr;

use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::tungstenite::handshake::server::{
    ErrorResponse, Request as UpgradeRequest, Response as UpgradeResponse, create_response_with_body,
};
use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_tungstenite::{WebSocketStream, accept_hdr_async_with_config};

use super::session::{reject, serve};
use super::socket::{MessageSocket, ReadBudget, socket_config};
use super::{ConnectionData, ErrorCode, MessageError, Router};
use crate::clock::complete_before;
use crate::http::Client;

impl<D: ConnectionData> Router<D> {
    /// Opens a WebSocket on an accepted connection, authenticates the client, and serves it until it ends. `peer` is the
    /// address at the other end. Returns an error if the handshake fails.
    ///
    /// A rejected client has had its 101 response by then, so the connection is closed with 1008.
    ///
    /// ```no_run
    /// use tidegate::websocket::Router;
    ///
    /// # async fn example(router: Router<()>) -> std::io::Result<()> {
    /// let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
    /// loop {
    ///     let (stream, peer) = listener.accept().await?;
    ///     let router = router.clone();
    ///     tokio::spawn(async move { router.accept(stream, Some(peer.ip())).await });
    /// }
    /// # }
    /// ```
    pub async fn accept<S>(&self, stream: S, peer: Option<IpAddr>) -> io::Result<()>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let settings = &self.inner().settings;
        let mut opening = None;
        #[expect(clippy::result_large_err, reason = "the callback's type is given")]
        let callback =
            |request: &UpgradeRequest, response: UpgradeResponse| -> Result<UpgradeResponse, ErrorResponse> {
                opening = Some(request.clone());
                Ok(response)
            };
        let max_bytes = settings.socket_limit();
        let (read_budget, stream) = ReadBudget::meter(stream, max_bytes);
        let accepted = accept_hdr_async_with_config(stream, callback, Some(socket_config(max_bytes)));
        let late = tokio::time::sleep(settings.handshake_timeout);
        let accepted = complete_before(late, accepted).await.ok_or(io::ErrorKind::TimedOut)?;
        let socket = MessageSocket { stream: accepted.map_err(io::Error::other)?, read_budget: Some(read_budget) };
        let request: Request<()> = opening.expect("a handshake has a request");
        match self.authenticate(request, peer).await {
            Ok((data, client)) => serve(self, socket, data, client).await,
            Err(error) => reject(self, socket, &error).await,
        }
        Ok(())
    }

    /// Serves a WebSocket that other code has opened and authenticated, until it ends.
    ///
    /// The opener of the socket sets its maximum message size. Bytes are not metered: a fragmented message that never
    /// ends is read for as long as it comes.
    pub async fn serve<S>(&self, socket: WebSocketStream<S>, data: D, client: Option<Client>)
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        serve(self, MessageSocket { stream: socket, read_budget: None }, data, client).await;
    }
}

impl<D: ConnectionData> Router<D> {
    /// Opens a WebSocket from a request to a hyper server, such as axum's, over HTTP/1.1, and serves it in a task of
    /// its own. `peer` is the address at the other end of the connection.
    ///
    /// A rejected client gets an HTTP status: 401, 403, 429, and so on.
    pub async fn upgrade<B>(&self, mut request: Request<B>, peer: Option<IpAddr>) -> Response<String> {
        let upgraded = hyper::upgrade::on(&mut request);
        let (parts, _) = request.into_parts();
        let request = Request::from_parts(parts, ());
        let Ok(response) = create_response_with_body(&request, String::new) else {
            return rejection_response(&MessageError::invalid("This is no request for a WebSocket over HTTP/1.1"));
        };
        let (data, client) = match self.authenticate(request, peer).await {
            Ok(known) => known,
            Err(error) => return rejection_response(&error),
        };
        let router = self.clone();
        tokio::spawn(async move {
            // Fails when the client left before the response, or when the server does not support upgrades.
            let Ok(upgraded) = upgraded.await else { return };
            let max_bytes = router.inner().settings.socket_limit();
            let (read_budget, stream) = ReadBudget::meter(TokioIo::new(upgraded), max_bytes);
            let stream = WebSocketStream::from_raw_socket(stream, Role::Server, Some(socket_config(max_bytes))).await;
            serve(&router, MessageSocket { stream, read_budget: Some(read_budget) }, data, client).await;
        });
        response
    }
}

/// The HTTP response to a rejected client.
fn rejection_response(error: &MessageError) -> Response<String> {
    let mut response = Response::new(serde_json::to_string(error).expect("text, numbers and JSON"));
    *response.status_mut() = match error.code() {
        ErrorCode::Unauthenticated => StatusCode::UNAUTHORIZED,
        ErrorCode::PermissionDenied => StatusCode::FORBIDDEN,
        ErrorCode::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
        ErrorCode::Unavailable | ErrorCode::DeadlineExceeded => StatusCode::SERVICE_UNAVAILABLE,
        ErrorCode::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        _ => StatusCode::BAD_REQUEST,
    };
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(span) = error.retry_after() {
        let seconds = span.as_secs() + u64::from(span.subsec_nanos() > 0);
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    response
}

/// An axum route that opens WebSockets, by [`Router::upgrade`].
///
/// ```
/// use tidegate::websocket::{self, Router};
///
/// # fn example(router: Router<()>) -> axum::Router {
/// axum::Router::new().route("/ws", websocket::route(router))
/// # }
/// ```
///
/// Expose peer addresses: serve the program with `into_make_service_with_connect_info::<SocketAddr>()`.
#[cfg(feature = "axum")]
pub fn route<D: ConnectionData, S: Clone + Send + Sync + 'static>(router: Router<D>) -> axum::routing::MethodRouter<S> {
    axum::routing::get(move |request: axum::extract::Request| async move {
        let peer = crate::http::RequestHead::from_request(&request).peer();
        router.upgrade(request, peer).await.map(axum::body::Body::from)
    })
}
