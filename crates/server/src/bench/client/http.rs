//! The HTTP API: `POST /v1/limit`.

use std::io::Write as _;

use ::http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use ::http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
use bytes::{BufMut, Bytes, BytesMut};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use serde::Deserialize;

use super::{Answer, Lost, Refusal, words};
use crate::bench::dial::Wire;
use crate::bench::plan::Question;

/// More than any answer of the API to one question.
const MAX_BODY: usize = 64 << 10;

/// A connection with HTTP/1.1.
pub(in crate::bench) struct Http {
    sender: SendRequest<Full<Bytes>>,
    headers: HeaderMap,
    /// What stands before the key and behind it.
    around: (Bytes, Bytes),
    buffer: BytesMut,
}

/// The part of a decision that is counted.
#[derive(Deserialize)]
struct Decision {
    allowed: bool,
}

/// The part of a problem (RFC 9457) that people read.
#[derive(Deserialize)]
struct Problem {
    title: Option<String>,
    detail: Option<String>,
}

impl Http {
    pub(super) async fn over(wire: Wire, question: &Question) -> Result<Self, Lost> {
        let (sender, connection) = http1::handshake(TokioIo::new(wire)).await.map_err(|error| lost(&error))?;
        // Whoever waits for an answer hears of its end.
        tokio::spawn(connection);
        let mut headers = HeaderMap::new();
        let host = HeaderValue::try_from(&question.authority).map_err(|error| Lost(error.to_string()))?;
        headers.insert(HOST, host);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(token) = &question.token {
            let mut value = HeaderValue::try_from([b"Bearer ", token.as_bytes()].concat())
                .map_err(|error| Lost(error.to_string()))?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let limit = serde_json::Value::from(question.limit.as_deref().unwrap_or("api"));
        let around = (format!("{{\"limit\":{limit},\"key\":\"bench-"), format!("\",\"cost\":{}}}", question.cost));
        Ok(Http { sender, headers, around: (around.0.into(), around.1.into()), buffer: BytesMut::new() })
    }

    pub(super) async fn ask(&mut self, key: u64) -> Result<Answer, Lost> {
        self.sender.ready().await.map_err(|error| lost(&error))?;
        self.buffer.extend_from_slice(&self.around.0);
        // A buffer in memory is never full.
        let _ = write!((&mut self.buffer).writer(), "{key}");
        self.buffer.extend_from_slice(&self.around.1);
        let mut request = Request::new(Full::new(self.buffer.split().freeze()));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = Uri::from_static("/v1/limit");
        *request.headers_mut() = self.headers.clone();
        let response = self.sender.send_request(request).await.map_err(|error| lost(&error))?;
        read(response).await
    }
}

async fn read(response: Response<Incoming>) -> Result<Answer, Lost> {
    let (head, body) = response.into_parts();
    let body = Limited::new(body, MAX_BODY).collect().await.map_err(|error| Lost(error.to_string()))?.to_bytes();
    if head.status == StatusCode::OK {
        return Ok(match serde_json::from_slice(&body) {
            Ok(Decision { allowed: true }) => Answer::Allowed,
            Ok(Decision { allowed: false }) => Answer::Denied,
            Err(_) => {
                refused("no decision", "200 without a decision: is that the HTTP port of Tidegate?".into(), false)
            }
        });
    }
    let message = match serde_json::from_slice(&body) {
        Ok(Problem { detail: Some(text), .. } | Problem { title: Some(text), .. }) => words(&text),
        _ => words(&String::from_utf8_lossy(&body)),
    };
    let passing = head.status.is_server_error() || head.status == StatusCode::TOO_MANY_REQUESTS;
    Ok(refused(&head.status.to_string(), message, passing))
}

fn refused(kind: &str, message: String, passing: bool) -> Answer {
    Answer::Refused(Box::new(Refusal { kind: kind.to_owned(), message, passing }))
}

fn lost(error: &hyper::Error) -> Lost {
    Lost(error.to_string())
}
