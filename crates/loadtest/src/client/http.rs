//! A client of the HTTP API: `POST /v1/limit` over HTTP/1.1.

use std::io::Write as _;

use ::http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use ::http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
use bytes::{BufMut, Bytes, BytesMut};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use serde::Deserialize;

use super::{ConnectionLost, RequestError, Verdict, excerpt};
use crate::run::RequestTemplate;
use crate::target::IoStream;

/// A bound above every response of the API to one request.
const MAX_BODY: usize = 64 << 10;

/// A connection with HTTP/1.1.
pub(crate) struct HttpConnection {
    sender: SendRequest<Full<Bytes>>,
    headers: HeaderMap,
    /// The parts of the body before and after the key.
    body_parts: (Bytes, Bytes),
    buffer: BytesMut,
}

/// The part of a decision that counts here.
#[derive(Deserialize)]
struct Decision {
    allowed: bool,
}

/// The readable part of a problem (RFC 9457).
#[derive(Deserialize)]
struct Problem {
    title: Option<String>,
    detail: Option<String>,
}

impl HttpConnection {
    pub(super) async fn from_stream(stream: IoStream, template: &RequestTemplate) -> Result<Self, ConnectionLost> {
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|error| lost(&error))?;
        // The pending request reports its end.
        tokio::spawn(connection);
        let mut headers = HeaderMap::new();
        let host = HeaderValue::try_from(&template.authority).map_err(|error| ConnectionLost(error.to_string()))?;
        headers.insert(HOST, host);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(token) = &template.token {
            let mut value = HeaderValue::try_from([b"Bearer ", token.as_bytes()].concat())
                .map_err(|error| ConnectionLost(error.to_string()))?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let limit = serde_json::Value::from(template.limit.as_deref().unwrap_or("api"));
        let body_parts = (format!("{{\"limit\":{limit},\"key\":\"bench-"), format!("\",\"cost\":{}}}", template.cost));
        Ok(HttpConnection {
            sender,
            headers,
            body_parts: (body_parts.0.into(), body_parts.1.into()),
            buffer: BytesMut::new(),
        })
    }

    pub(super) async fn send(&mut self, key: u64) -> Result<Verdict, ConnectionLost> {
        self.sender.ready().await.map_err(|error| lost(&error))?;
        self.buffer.extend_from_slice(&self.body_parts.0);
        // A buffer in memory is never full.
        let _ = write!((&mut self.buffer).writer(), "{key}");
        self.buffer.extend_from_slice(&self.body_parts.1);
        let mut request = Request::new(Full::new(self.buffer.split().freeze()));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = Uri::from_static("/v1/limit");
        *request.headers_mut() = self.headers.clone();
        let response = self.sender.send_request(request).await.map_err(|error| lost(&error))?;
        read_verdict(response).await
    }
}

async fn read_verdict(response: Response<Incoming>) -> Result<Verdict, ConnectionLost> {
    let (head, body) = response.into_parts();
    let body =
        Limited::new(body, MAX_BODY).collect().await.map_err(|error| ConnectionLost(error.to_string()))?.to_bytes();
    if head.status == StatusCode::OK {
        return Ok(match serde_json::from_slice(&body) {
            Ok(Decision { allowed: true }) => Verdict::Allowed,
            Ok(Decision { allowed: false }) => Verdict::Denied,
            Err(_) => failed("no decision", "200 without a decision: is that the HTTP port of Tidegate?".into(), false),
        });
    }
    let message = match serde_json::from_slice(&body) {
        Ok(Problem { detail: Some(text), .. } | Problem { title: Some(text), .. }) => excerpt(&text),
        _ => excerpt(&String::from_utf8_lossy(&body)),
    };
    let is_transient = head.status.is_server_error() || head.status == StatusCode::TOO_MANY_REQUESTS;
    Ok(failed(&head.status.to_string(), message, is_transient))
}

fn failed(kind: &str, message: String, is_transient: bool) -> Verdict {
    Verdict::Failed(Box::new(RequestError { kind: kind.to_owned(), message, is_transient }))
}

fn lost(error: &hyper::Error) -> ConnectionLost {
    ConnectionLost(error.to_string())
}
