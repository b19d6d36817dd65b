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

use super::{MAX_MESSAGE, health, lenient, service};
use crate::json::same_site;
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
/// How large a question about health may be: it is the name of a service.
const MAX_HEALTH: usize = 1 << 10;
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
    /// The same within a router, for when everything has to go through one: its codec refuses what is no text, and waits for
    /// a message for as long as that takes.
    pub(super) fn within(self, router: Router) -> Router {
        router.layer(from_fn(move |request: Request<axum::body::Body>, next: Next| {
            let calls = self.clone();
            async move {
                if calls.is_usual(&request) {
                    return calls.reply(request.into_body()).await.map(axum::body::Body::new);
                }
                if !has_one_message(request.uri().path()) {
                    return next.run(request).await;
                }
                let (mut head, body) = request.into_parts();
                // While the message is waited for, no more is kept than is needed: whoever can connect may ask for health.
                head.headers = needed(&head.headers);
                let largest = if head.uri.path() == PATH { MAX_MESSAGE } else { MAX_HEALTH };
                match whole(body, largest).await {
                    Ok(body) => next.run(Request::from_parts(head, body.into())).await,
                    Err(status) => status.into_http(),
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
            && same_site(request.uri(), headers).is_ok()
    }

    async fn reply<B>(&self, body: B) -> Response<Answer>
    where
        B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>>,
    {
        match self.call(body).await {
            Ok(response) => answered(&response),
            Err(status) => status.into_http::<axum::body::Body>().map(Answer::routed),
        }
    }

    async fn call<B>(&self, body: B) -> Result<RateLimitResponse, Status>
    where
        B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>>,
    {
        let request = lenient::decode(message(whole(body, MAX_MESSAGE).await?)?);
        let request = request.map_err(|error| Status::internal(format!("the message cannot be read: {error}")))?;
        service::decide(&self.gate, &request).await
    }
}

/// Whether a call to this path is asked with one message. Reflection is asked with many, one after the other.
fn has_one_message(path: &str) -> bool {
    path == PATH || path.starts_with(health::PATH)
}

/// What the router looks at.
fn needed(headers: &HeaderMap) -> HeaderMap {
    const NAMES: [&str; 5] = ["content-type", "te", "grpc-encoding", "grpc-accept-encoding", "grpc-timeout"];
    let found = NAMES.map(|name| (HeaderName::from_static(name), headers.get(name)));
    found.into_iter().filter_map(|(name, value)| Some((name, value?.clone()))).collect()
}

/// All of a body that is one message.
async fn whole<B>(body: B, largest: usize) -> Result<Bytes, Status>
where
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>>,
{
    in_time(body, PREFIX + largest).await.map_err(|broken| match broken {
        Broken::TooLarge => too_large(largest),
        Broken::TooSlow => Status::deadline_exceeded("the message did not arrive in time"),
        Broken::Cut(error) => Status::internal(format!("the message cannot be read: {error}")),
    })
}

/// The one message of a body.
fn message(mut body: Bytes) -> Result<Bytes, Status> {
    let Some(([compressed, length @ ..], _)) = body.split_first_chunk::<PREFIX>() else {
        return Err(Status::internal("expected a message, found none that is whole"));
    };
    let length = u32::from_be_bytes(*length) as usize;
    match *compressed {
        0 if length > MAX_MESSAGE => Err(too_large(MAX_MESSAGE)),
        0 if length == body.len() - PREFIX => Ok(body.split_off(PREFIX)),
        0 => Err(Status::internal("expected one whole message, found another number of bytes")),
        _ => Err(Status::internal("found a compressed message, whose encoding the call does not name")),
    }
}

fn too_large(largest: usize) -> Status {
    Status::out_of_range(format!("expected a message of at most {largest} bytes"))
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
    use std::time::Duration;

    use tidegate::MemoryStore;
    use tokio::time::{Instant, timeout};
    use tower::ServiceExt;

    use super::*;
    use crate::serve::grpc::router;
    use crate::serve::served::Served;
    use crate::serve::shutdown::Ending;
    use crate::serve::store::Backing;

    /// What the whole router says to a call to `path` whose message never comes.
    async fn said_to_silence(path: &str, encoding: &str) -> HeaderMap {
        let backing = Backing::Memory(Arc::new(MemoryStore::builder().max_keys(1_000).build()));
        let gate = Gate::new(backing, Served::load(None).expect("a config"), false).expect("a gate");
        let (_ending, shutdown) = Ending::new();
        let router = router(Arc::new(gate), None, shutdown.clone(), shutdown).await;
        let silence = axum::body::Body::from_stream(futures_util::stream::pending::<Result<Bytes, axum::Error>>());
        let head = Request::post(path).version(Version::HTTP_2).header(CONTENT_TYPE, GRPC).header(ENCODING, encoding);
        router.oneshot(head.body(silence).expect("a request")).await.expect("an answer").headers().clone()
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_is_waited_for_but_not_for_ever() {
        let [check, watch] = ["Check", "Watch"].map(|method| health::PATH.to_owned() + method);
        for (path, encoding) in [(PATH, "identity"), (PATH, "zstd"), (&check, "identity"), (&watch, "identity")] {
            let began = Instant::now();
            let said = timeout(Duration::from_secs(60), said_to_silence(path, encoding)).await;
            let said = said.unwrap_or_else(|_| panic!("{path} waits for ever"));
            assert_eq!(said.get(STATUS).expect("a status"), "4", "{path}");
            let waited = began.elapsed();
            assert!((10_000..10_010).contains(&waited.as_millis()), "{path}: {waited:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn many_messages_and_unknown_calls_are_not_waited_for() {
        for path in ["/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "/nobody/Knows"] {
            let began = Instant::now();
            said_to_silence(path, "identity").await;
            assert_eq!(began.elapsed(), Duration::ZERO, "{path}");
        }
    }

    #[tokio::test]
    async fn a_question_about_health_is_short() {
        for (length, is_too_large) in [(MAX_HEALTH, false), (MAX_HEALTH + 1, true)] {
            let body = http_body_util::Full::new(Bytes::from(vec![0; PREFIX + length]));
            assert_eq!(whole(body, MAX_HEALTH).await.is_err(), is_too_large, "{length}");
        }
        let many = (0..1_000).map(|_| (HeaderName::from_static("age"), HeaderValue::from_static("")));
        let headers: HeaderMap = many.chain([(CONTENT_TYPE, GRPC)]).collect();
        assert_eq!((headers.len(), needed(&headers).len()), (1_001, 1));
    }

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
