//! The fast path of `ShouldRateLimit`: one message in, one message out, without a router and its codec.

use std::sync::Arc;

use axum::Router;
use axum::middleware::{Next, from_fn};
use bytes::{BufMut, Bytes, BytesMut};
use envoy_types::pb::envoy::service::ratelimit::v3::RateLimitResponse;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{HeaderMap, Method, Request, Response, Version};
use prost::Message;
use tonic::Status;

use super::super::access::{Access, Origin};
use super::{HEALTH_PREFIX, MAX_MESSAGE, lenient, service};
use crate::app::App;
use crate::net::body::{BodyError, RequestBody, ResponseBody, read_body};
use crate::net::charged_body::ChargedRequestBody;
use crate::net::http_server::FastPath;

const SHOULD_RATE_LIMIT: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");
const GRPC_PROTO: HeaderValue = HeaderValue::from_static("application/grpc+proto");
const ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");
const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const OK: HeaderValue = HeaderValue::from_static("0");
/// The most bytes of a health request, which is the name of a service.
const MAX_HEALTH_MESSAGE: usize = 1 << 10;
/// The bytes before a message: whether it is compressed, and its length.
const PREFIX: usize = 5;

/// The fast path of `ShouldRateLimit`. Unusual calls go to the router.
#[derive(Clone)]
pub(crate) struct RateLimitFastPath {
    pub(crate) app: Arc<App>,
    pub(crate) access: Access,
}

impl FastPath for RateLimitFastPath {
    fn try_answer(
        &self,
        request: Request<ChargedRequestBody>,
    ) -> Result<impl Future<Output = Response<ResponseBody>> + Send + use<>, Request<ChargedRequestBody>> {
        if !self.is_usual(&request) {
            return Err(request);
        }
        let app = Arc::clone(&self.app);
        Ok(async move { answer(&app, request.into_body()).await })
    }
}

impl RateLimitFastPath {
    /// Puts the fast path before a router, for when every call goes through one (with telemetry). The router's codec refuses
    /// strings that are not UTF-8, and waits for a message without a timeout.
    pub(super) fn before_router(self, router: Router) -> Router {
        router.layer(from_fn(move |request: Request<axum::body::Body>, next: Next| {
            let fast_path = self.clone();
            async move {
                if fast_path.is_usual(&request) {
                    return answer(&fast_path.app, request.into_body()).await.map(axum::body::Body::new);
                }
                if !has_one_message(request.uri().path()) {
                    return next.run(request).await;
                }
                let (mut head, body) = request.into_parts();
                // Only needed headers are kept while the message arrives: every client may call the health check.
                head.headers = needed_headers(&head.headers);
                let max_bytes = if head.uri.path() == SHOULD_RATE_LIMIT { MAX_MESSAGE } else { MAX_HEALTH_MESSAGE };
                match read_message(body, max_bytes).await {
                    Ok(body) => next.run(Request::from_parts(head, body.into())).await,
                    Err(status) => status.into_http(),
                }
            }
        }))
    }

    fn is_usual<B>(&self, request: &Request<B>) -> bool {
        let headers = request.headers();
        request.uri().path() == SHOULD_RATE_LIMIT
            && *request.method() == Method::POST
            && request.version() == Version::HTTP_2
            && headers.get(CONTENT_TYPE).is_some_and(|value| value == GRPC || value == GRPC_PROTO)
            && headers.get(ENCODING).is_none_or(|encoding| encoding == "identity")
            && self.access.check(request, Origin::SameSite).is_ok()
    }
}

async fn answer(app: &App, body: impl RequestBody) -> Response<ResponseBody> {
    match decide_body(app, body).await {
        Ok(response) => encode_response(&response),
        Err(status) => status.into_http::<axum::body::Body>().map(ResponseBody::routed),
    }
}

async fn decide_body(app: &App, body: impl RequestBody) -> Result<RateLimitResponse, Status> {
    let request = lenient::decode(strip_prefix(read_message(body, MAX_MESSAGE).await?)?);
    let request = request.map_err(|error| Status::internal(format!("the message cannot be read: {error}")))?;
    service::decide(app, &request).await
}

/// Whether a call to this path has one request message. Reflection has a stream of them.
fn has_one_message(path: &str) -> bool {
    path == SHOULD_RATE_LIMIT || path.starts_with(HEALTH_PREFIX)
}

/// Returns the headers that the router needs.
fn needed_headers(headers: &HeaderMap) -> HeaderMap {
    const NAMES: [&str; 5] = ["content-type", "te", "grpc-encoding", "grpc-accept-encoding", "grpc-timeout"];
    let found = NAMES.map(|name| (HeaderName::from_static(name), headers.get(name)));
    found.into_iter().filter_map(|(name, value)| Some((name, value?.clone()))).collect()
}

/// Reads a body that is one message with its prefix.
async fn read_message(body: impl RequestBody, max_bytes: usize) -> Result<Bytes, Status> {
    read_body(body, PREFIX + max_bytes).await.map_err(|error| match error {
        BodyError::TooLarge => too_large(max_bytes),
        BodyError::NoRoom => Status::unavailable("too many bytes wait in the server: try again later"),
        BodyError::TooSlow => Status::deadline_exceeded("the message did not arrive in time"),
        BodyError::Broken(error) => Status::internal(format!("the message cannot be read: {error}")),
    })
}

/// Checks the prefix of a message and removes it.
fn strip_prefix(mut body: Bytes) -> Result<Bytes, Status> {
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

fn too_large(max_bytes: usize) -> Status {
    Status::out_of_range(format!("expected a message of at most {max_bytes} bytes"))
}

fn encode_response(response: &RateLimitResponse) -> Response<ResponseBody> {
    let length = response.encoded_len();
    let mut bytes = BytesMut::with_capacity(PREFIX + length);
    bytes.put_u8(0);
    bytes.put_u32(length as u32);
    response.encode_raw(&mut bytes);
    let mut trailers = HeaderMap::with_capacity(1);
    trailers.insert(STATUS, OK);
    let mut response = Response::new(ResponseBody::with_trailers(bytes, trailers));
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
    use crate::app::config::ActiveConfig;
    use crate::app::store::AppStore;
    use crate::doors::grpc::router;
    use crate::net::shutdown::ShutdownTrigger;

    /// The response headers of the router to a call whose message never arrives.
    async fn response_to_silence(path: &str, encoding: &str) -> HeaderMap {
        let store = AppStore::Memory(Arc::new(MemoryStore::builder().max_keys(1_000).build()));
        let app = App::new(store, ActiveConfig::load(None).expect("a config"), false).expect("an app");
        let (_ending, shutdown) = ShutdownTrigger::new();
        let router = router(Arc::new(app), Access::new(None), shutdown.clone(), shutdown).await;
        let silence = axum::body::Body::from_stream(futures_util::stream::pending::<Result<Bytes, axum::Error>>());
        let head = Request::post(path).version(Version::HTTP_2).header(CONTENT_TYPE, GRPC).header(ENCODING, encoding);
        router.oneshot(head.body(silence).expect("a request")).await.expect("an answer").headers().clone()
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_that_does_not_arrive_times_out() {
        let [check, watch] = ["Check", "Watch"].map(|method| HEALTH_PREFIX.to_owned() + method);
        for (path, encoding) in
            [(SHOULD_RATE_LIMIT, "identity"), (SHOULD_RATE_LIMIT, "zstd"), (&check, "identity"), (&watch, "identity")]
        {
            let started = Instant::now();
            let headers = timeout(Duration::from_secs(60), response_to_silence(path, encoding)).await;
            let headers = headers.unwrap_or_else(|_| panic!("{path} waits for ever"));
            assert_eq!(headers.get(STATUS).expect("a status"), "4", "{path}");
            let waited = started.elapsed();
            assert!((10_000..10_010).contains(&waited.as_millis()), "{path}: {waited:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn streams_and_unknown_calls_are_not_read_first() {
        for path in ["/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "/nobody/Knows"] {
            let started = Instant::now();
            response_to_silence(path, "identity").await;
            assert_eq!(started.elapsed(), Duration::ZERO, "{path}");
        }
    }

    #[tokio::test]
    async fn a_health_request_is_bounded() {
        for (length, is_too_large) in [(MAX_HEALTH_MESSAGE, false), (MAX_HEALTH_MESSAGE + 1, true)] {
            let body = http_body_util::Full::new(Bytes::from(vec![0; PREFIX + length]));
            assert_eq!(read_message(body, MAX_HEALTH_MESSAGE).await.is_err(), is_too_large, "{length}");
        }
        let many = (0..1_000).map(|_| (HeaderName::from_static("age"), HeaderValue::from_static("")));
        let headers: HeaderMap = many.chain([(CONTENT_TYPE, GRPC)]).collect();
        assert_eq!((headers.len(), needed_headers(&headers).len()), (1_001, 1));
    }

    #[test]
    fn a_body_is_exactly_one_message() {
        let body = |text: &'static [u8]| strip_prefix(Bytes::from_static(text)).map_err(|status| status.code());
        assert_eq!(body(b"\0\0\0\0\x02ab").unwrap(), "ab");
        assert_eq!(body(b"\0\0\0\0\0").unwrap(), "");
        for broken in [&b""[..], b"\0\0\0\0", b"\0\0\0\0\x02a", b"\0\0\0\0\x02abc", b"\x01\0\0\0\x02ab"] {
            assert_eq!(body(broken).unwrap_err(), tonic::Code::Internal);
        }
        assert_eq!(body(b"\0\xff\xff\xff\xff").unwrap_err(), tonic::Code::OutOfRange);
    }
}
