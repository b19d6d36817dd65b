//! Envoy's question, without the way through a router and its codec: one message in, one message out.

use std::error::Error;
use std::sync::Arc;

use axum::Router;
use axum::middleware::{Next, from_fn};
use bytes::{BufMut, Bytes, BytesMut};
use envoy_types::pb::envoy::service::ratelimit::v3::RateLimitResponse;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{HeaderMap, Method, Request, Response, Version};
use http_body::Body;
use hyper::body::Incoming;
use prost::Message;
use tonic::Status;

use super::{MAX_MESSAGE, lenient, service};
use crate::serve::answer::Answer;
use crate::serve::auth::{Token, may_ask};
use crate::serve::gate::Gate;
use crate::serve::http::{Broken, in_time};
use crate::serve::requests::AtOnce;

const PATH: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");
const GRPC_PROTO: HeaderValue = HeaderValue::from_static("application/grpc+proto");
const ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");
const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const OK: HeaderValue = HeaderValue::from_static("0");
/// What stands before a message: whether it is compressed, and its length.
const PREFIX: usize = 5;

/// Answers Envoy at once. Whatever is unusual about a call is left to the router.
#[derive(Clone)]
pub(crate) struct Calls {
    pub(crate) gate: Arc<Gate>,
    pub(crate) token: Option<Token>,
}

impl AtOnce for Calls {
    type Known = ();

    fn knows(&self, request: &Request<Incoming>) -> Option<()> {
        self.is_usual(request).then_some(())
    }

    async fn answer(&self, (): (), body: Incoming) -> Response<Answer> {
        self.reply(body).await
    }
}

impl Calls {
    /// The same within a router, for when everything has to go through one: its codec refuses what is no text.
    pub(super) fn within(self, router: Router) -> Router {
        router.layer(from_fn(move |request: Request<axum::body::Body>, next: Next| {
            let calls = self.clone();
            async move {
                match calls.is_usual(&request) {
                    true => calls.reply(request.into_body()).await.map(axum::body::Body::new),
                    false => next.run(request).await,
                }
            }
        }))
    }

    fn is_usual<B>(&self, request: &Request<B>) -> bool {
        let headers = request.headers();
        request.uri().path() == PATH
            && *request.method() == Method::POST
            && request.version() == Version::HTTP_2
            && headers.get(CONTENT_TYPE).is_some_and(|told| told == GRPC || told == GRPC_PROTO)
            && headers.get(ENCODING).is_none_or(|encoding| encoding == "identity")
            && may_ask(self.token.as_ref(), headers)
    }

    async fn reply<B>(&self, body: B) -> Response<Answer>
    where
        B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>>,
    {
        match self.call(body).await {
            Ok(response) => answered(&response),
            Err(status) => status.into_http::<axum::body::Body>().map(Answer::Routed),
        }
    }

    async fn call<B>(&self, body: B) -> Result<RateLimitResponse, Status>
    where
        B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>>,
    {
        let body = in_time(body, PREFIX + MAX_MESSAGE).await.map_err(|broken| match broken {
            Broken::TooLarge => too_large(),
            Broken::TooSlow => Status::deadline_exceeded("the message did not arrive in time"),
            Broken::Cut(error) => Status::internal(format!("the message cannot be read: {error}")),
        })?;
        let request = lenient::decode(message(body)?);
        let request = request.map_err(|error| Status::internal(format!("the message cannot be read: {error}")))?;
        service::decide(&self.gate, &request).await
    }
}

/// The one message of a body.
fn message(mut body: Bytes) -> Result<Bytes, Status> {
    let Some(([compressed, length @ ..], _)) = body.split_first_chunk::<PREFIX>() else {
        return Err(Status::internal("expected a message, found none that is whole"));
    };
    let length = u32::from_be_bytes(*length) as usize;
    match *compressed {
        0 if length > MAX_MESSAGE => Err(too_large()),
        0 if length == body.len() - PREFIX => Ok(body.split_off(PREFIX)),
        0 => Err(Status::internal("expected one whole message, found another number of bytes")),
        _ => Err(Status::internal("found a compressed message, whose encoding the call does not name")),
    }
}

fn too_large() -> Status {
    Status::out_of_range(format!("expected a message of at most {MAX_MESSAGE} bytes"))
}

fn answered(response: &RateLimitResponse) -> Response<Answer> {
    let length = response.encoded_len();
    let mut bytes = BytesMut::with_capacity(PREFIX + length);
    bytes.put_u8(0);
    bytes.put_u32(length as u32);
    response.encode_raw(&mut bytes);
    let mut trailers = HeaderMap::with_capacity(1);
    trailers.insert(STATUS, OK);
    let mut response = Response::new(Answer::with_trailers(bytes, trailers));
    response.headers_mut().insert(CONTENT_TYPE, GRPC);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_whole_message_is_one() {
        let body = |text: &'static [u8]| message(Bytes::from_static(text)).map_err(|status| status.code());
        assert_eq!(body(b"\0\0\0\0\x02ab").unwrap(), "ab");
        assert_eq!(body(b"\0\0\0\0\0").unwrap(), "");
        for broken in [&b""[..], b"\0\0\0\0", b"\0\0\0\0\x02a", b"\0\0\0\0\x02abc", b"\x01\0\0\0\x02ab"] {
            assert_eq!(body(broken).unwrap_err(), tonic::Code::Internal);
        }
        assert_eq!(body(b"\0\xff\xff\xff\xff").unwrap_err(), tonic::Code::OutOfRange);
    }
}
