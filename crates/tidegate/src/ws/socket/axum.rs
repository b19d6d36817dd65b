//! Sockets of axum.

use std::error::Error as _;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, WebSocketUpgrade};
use axum::extract::{FromRequestParts, Request};
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, any};
use bytes::Bytes;
use futures_util::{Sink, SinkExt, Stream, StreamExt};

use super::super::serve::serve;
use super::super::{Code, Data, Error, Router};
use super::{BUFFER, Broken, Received, Sent, Socket, tungstenite};
use crate::http::{Client, Incoming};

/// A route of axum's router on which WebSockets are opened.
///
/// ```
/// use tidegate::ws::{self, Router};
///
/// # fn example(router: Router<()>) -> axum::Router {
/// axum::Router::new().route("/ws", ws::route(router))
/// # }
/// ```
///
/// Who is not let in is answered with a status: 401, 403, 429, and so on. The address of the peer is known where the
/// program is served with `into_make_service_with_connect_info::<SocketAddr>()`.
pub fn route<D: Data, S: Clone + Send + Sync + 'static>(router: Router<D>) -> MethodRouter<S> {
    any(move |request: Request| async move { router.upgrade(request).await })
}

impl<D: Data> Router<D> {
    /// Opens a WebSocket from a request, and serves it in a task of its own.
    async fn upgrade(self, request: Request) -> Response {
        let (mut parts, _) = request.into_parts();
        let upgrade = match WebSocketUpgrade::from_request_parts(&mut parts, &()).await {
            Ok(upgrade) => upgrade,
            Err(rejection) => return rejection.into_response(),
        };
        let request = Request::from_parts(parts, ());
        let peer = Incoming::of(&request).peer();
        let (data, client) = match self.authenticate(request, peer).await {
            Ok(known) => known,
            Err(error) => return refusal(&error),
        };
        let limit = self.inner().settings.socket_limit();
        let upgrade = upgrade.max_message_size(limit).max_frame_size(limit);
        let upgrade = upgrade.read_buffer_size(BUFFER).write_buffer_size(BUFFER);
        upgrade.on_upgrade(move |socket| async move { self.serve_axum(socket, data, client).await })
    }

    /// Serves a WebSocket of axum that somebody else has opened and knows, until it ends. How long a message the socket
    /// itself takes was said by whoever opened it.
    pub async fn serve_axum(&self, socket: WebSocket, data: D, client: Option<Client>) {
        serve(self, Axum(socket), data, client).await;
    }
}

/// The response to somebody who is not let in.
fn refusal(error: &Error) -> Response {
    let status = match error.code() {
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::PermissionDenied => StatusCode::FORBIDDEN,
        Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
        Code::Unavailable | Code::DeadlineExceeded => StatusCode::SERVICE_UNAVAILABLE,
        Code::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        _ => StatusCode::BAD_REQUEST,
    };
    let body = serde_json::to_string(error).expect("text, numbers and JSON");
    let mut response = (status, [(CONTENT_TYPE, HeaderValue::from_static("application/json"))], body).into_response();
    if let Some(span) = error.retry_after() {
        let seconds = span.as_secs() + u64::from(span.subsec_nanos() > 0);
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    response
}

struct Axum(WebSocket);

impl Socket for Axum {
    type Text = Utf8Bytes;
}

impl Stream for Axum {
    type Item = Result<Received<Utf8Bytes>, Broken>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Ready(ready!(self.0.poll_next_unpin(context)).map(|received| {
            Ok(match received.map_err(broken)? {
                Message::Text(text) => Received::Text(text),
                Message::Binary(bytes) => Received::Binary(bytes.len()),
                Message::Ping(_) => Received::Ping,
                Message::Pong(_) => Received::Pong,
                Message::Close(frame) => {
                    Received::Close(frame.map(|frame| (frame.code, frame.reason.as_str().to_owned())))
                }
            })
        }))
    }
}

impl Sink<Sent> for Axum {
    type Error = Broken;

    fn poll_ready(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        self.0.poll_ready_unpin(context).map_err(broken)
    }

    fn start_send(mut self: Pin<&mut Self>, sent: Sent) -> Result<(), Broken> {
        let message = match sent {
            Sent::Text(text) => Message::Text(text.try_into().map_err(|_| Broken::NotText)?),
            Sent::Ping => Message::Ping(Bytes::new()),
            Sent::Close(code, reason) => Message::Close(Some(CloseFrame { code, reason: reason.into() })),
        };
        self.0.start_send_unpin(message).map_err(broken)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        self.0.poll_flush_unpin(context).map_err(broken)
    }

    fn poll_close(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        self.0.poll_close_unpin(context).map_err(broken)
    }
}

/// What an error means for the connection. axum wraps those of the crate that its sockets are made of.
fn broken(error: axum::Error) -> Broken {
    match error.source().and_then(|source| source.downcast_ref()) {
        Some(error) => tungstenite::broken(error),
        None => Broken::Gone,
    }
}
