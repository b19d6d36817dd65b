//! Sockets on connections of an HTTP server.

use std::net::IpAddr;

use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::server::create_response_with_body;
use tokio_tungstenite::tungstenite::protocol::Role;

use super::super::serve::serve;
use super::super::{Code, Data, Error, Router};
use super::allowance::Allowance;
use super::{Socket, config};

impl<D: Data> Router<D> {
    /// Opens a WebSocket from a request to a server of hyper, such as axum's, over HTTP/1.1, and serves it in a task of its
    /// own. `peer` is the address at the other end of the connection.
    ///
    /// Who is not let in is answered with a status: 401, 403, 429, and so on.
    pub async fn upgrade<B>(&self, mut request: Request<B>, peer: Option<IpAddr>) -> Response<String> {
        let upgraded = hyper::upgrade::on(&mut request);
        let (parts, _) = request.into_parts();
        let request = Request::from_parts(parts, ());
        let Ok(response) = create_response_with_body(&request, String::new) else {
            return refusal(&Error::invalid("This is no request for a WebSocket over HTTP/1.1"));
        };
        let (data, client) = match self.authenticate(request, peer).await {
            Ok(known) => known,
            Err(error) => return refusal(&error),
        };
        let router = self.clone();
        tokio::spawn(async move {
            // A client that has gone before it was answered, or a server that does not upgrade.
            let Ok(upgraded) = upgraded.await else { return };
            let longest = router.inner().settings.socket_limit();
            let (allowance, stream) = Allowance::of(TokioIo::new(upgraded), longest);
            let stream = WebSocketStream::from_raw_socket(stream, Role::Server, Some(config(longest))).await;
            serve(&router, Socket { stream, allowance: Some(allowance) }, data, client).await;
        });
        response
    }
}

/// The response to somebody who is not let in.
fn refusal(error: &Error) -> Response<String> {
    let mut response = Response::new(serde_json::to_string(error).expect("text, numbers and JSON"));
    *response.status_mut() = match error.code() {
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::PermissionDenied => StatusCode::FORBIDDEN,
        Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
        Code::Unavailable | Code::DeadlineExceeded => StatusCode::SERVICE_UNAVAILABLE,
        Code::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        _ => StatusCode::BAD_REQUEST,
    };
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(span) = error.retry_after() {
        let seconds = span.as_secs() + u64::from(span.subsec_nanos() > 0);
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    response
}
