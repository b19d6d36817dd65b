//! The HTTP server of a port: a fast path for the most frequent requests, and a router for all others.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::response::IntoResponse;
use h2::Reason;
use http::header::{CONNECTION, HOST, HeaderValue, TRANSFER_ENCODING};
use http::{HeaderMap, Request, Response, StatusCode, Version};
use hyper::body::Incoming;
use tidegate::api::Problem;
use tower::ServiceExt;
use tracing::debug;

use super::body::{MAX_PIECE, ResponseBody};
use super::buffer_budget::BufferCharge;
use super::charged_body::{ChargedRequestBody, ChargedResponseBody};
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
        request: Request<ChargedRequestBody>,
    ) -> Result<impl Future<Output = Response<ResponseBody>> + Send + use<Self>, Request<ChargedRequestBody>>;
}

/// Marks a response whose bytes are shared with other responses, and counted once for all of them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SharedBytes;

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
        .run(shutdown.clone(), move |stream, peer: SocketAddr, account| {
            let (fast_path, router, draining) = (fast_path.clone(), router.clone(), Arc::clone(&draining));
            let mut shutdown = shutdown.clone();
            async move {
                let requests = Arc::clone(&account);
                let service = hyper::service::service_fn(move |request: Request<Incoming>| {
                    let (draining, version) = (Arc::clone(&draining), request.version());
                    requests.input().note_head();
                    let charge = requests.try_begin_request(head_bytes(request.headers()));
                    let malformed = head_error(&request);
                    let answer = charge.clone().map(|charge| {
                        let request = request.map(|body| ChargedRequestBody::new(body, charge));
                        let answer = match &fast_path {
                            Some(fast_path) if malformed.is_none() => fast_path.try_answer(request),
                            _ => Err(request),
                        };
                        // Boxed, so that requests on the fast path take less memory.
                        answer.map_err(|request| {
                            let mut request = request.map(Body::new);
                            request.extensions_mut().insert(ConnectInfo(peer));
                            Box::pin(router.clone().oneshot(request))
                        })
                    });
                    // On the heap, because the connection moves it.
                    Box::pin(async move {
                        let is_refused = answer.is_none();
                        let response = match (malformed, answer) {
                            // The client may send the request again, and nothing of it is kept until then.
                            (_, None) if version == Version::HTTP_2 => {
                                return Err(h2::Error::from(Reason::REFUSED_STREAM));
                            }
                            (_, None) => no_room(),
                            (Some(why), _) => Problem::bad_request(why).into_response().map(ResponseBody::routed),
                            (None, Some(Ok(fast))) => fast.await,
                            (None, Some(Err(routed))) => match routed.await {
                                Ok(response) => response.map(ResponseBody::routed),
                                Err(never) => match never {},
                            },
                        };
                        let mut response = charged(response, charge, version);
                        // A client with requests in a row must not send one into a connection that closes. After a body that
                        // was not wanted, the two may not agree where the next request begins.
                        let closes = malformed.is_some()
                            || is_refused
                            || response.status() == StatusCode::PAYLOAD_TOO_LARGE
                            || draining.load(Ordering::Relaxed);
                        if closes && version < Version::HTTP_2 {
                            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                        }
                        Ok(response)
                    })
                });
                if let Err(error) = http_connection::serve(stream, &account, service, &mut shutdown).await {
                    debug!(port = name, %peer, %error, "a connection ended early");
                }
            }
        })
        .await;
}

/// How many bytes of a response are counted with its request.
const SHORT_RESPONSE_BYTES: usize = 1 << 10;

/// Counts the bytes of a response, or replaces it when there is no room.
fn charged(
    response: Response<ResponseBody>,
    charge: Option<BufferCharge>,
    version: Version,
) -> Response<ChargedResponseBody> {
    let bytes = match response.extensions().get::<SharedBytes>() {
        None => response.body().buffered_bytes(),
        // A stream keeps a piece until its client makes room. HTTP/1 copies it to the output, which is counted there.
        Some(SharedBytes) if version == Version::HTTP_2 => MAX_PIECE,
        Some(SharedBytes) => 0,
    };
    let has_room = charge.as_ref().is_none_or(|charge| charge.try_grow(bytes.saturating_sub(SHORT_RESPONSE_BYTES)));
    let response = if has_room { response } else { no_room() };
    response.map(|body| ChargedResponseBody::new(body, charge))
}

fn no_room() -> Response<ResponseBody> {
    too_many_bytes().into_response().map(ResponseBody::routed)
}

/// The budget has no room for a request or its response.
pub(crate) fn too_many_bytes() -> Problem {
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "too many bytes wait in the server: try again later")
}

/// The headers that are counted with their request, and what each further one takes beside its text.
const FREE_HEADERS: usize = 16;
const HEADER_BYTES: usize = 160;

/// Returns how many bytes the headers of a request take, beyond those that are counted with every request.
fn head_bytes(headers: &HeaderMap) -> usize {
    let more = headers.len().saturating_sub(FREE_HEADERS);
    let text = headers.values().map(HeaderValue::len).sum::<usize>().saturating_sub(SHORT_RESPONSE_BYTES);
    more * HEADER_BYTES + text
}

/// Returns the error of an HTTP/1 head that a proxy in front may have understood in another way.
fn head_error<B>(request: &Request<B>) -> Option<&'static str> {
    if request.version() > Version::HTTP_11 {
        return None;
    }
    let mut hosts = request.headers().get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (None, _) if request.version() == Version::HTTP_11 => return Some("expected a Host header"),
        (_, Some(_)) => return Some("found two Host headers, expected one"),
        _ => {}
    }
    let mut codings = request.headers().get_all(TRANSFER_ENCODING).iter();
    match (codings.next(), codings.next()) {
        (None, _) => None,
        (Some(coding), None) if coding.as_bytes().eq_ignore_ascii_case(b"chunked") => None,
        _ => Some("found an unknown transfer coding, expected chunked"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_of(version: Version, headers: &[(&str, &str)]) -> Option<&'static str> {
        let request = Request::builder().version(version);
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        head_error(&request.body(()).expect("a request"))
    }

    #[test]
    fn http1_head_has_one_host_and_a_known_transfer_coding() {
        let host = ("host", "x");
        for headers in [&[host][..], &[host, ("transfer-encoding", "Chunked")]] {
            assert_eq!(error_of(Version::HTTP_11, headers), None, "{headers:?}");
        }
        for (headers, expected) in [
            (&[][..], "expected a Host header"),
            (&[host, host], "found two Host headers, expected one"),
            (&[host, ("transfer-encoding", "gzip, chunked")], "found an unknown transfer coding, expected chunked"),
            (
                &[host, ("transfer-encoding", "identity"), ("transfer-encoding", "chunked")],
                "found an unknown transfer coding, expected chunked",
            ),
        ] {
            assert_eq!(error_of(Version::HTTP_11, headers), Some(expected), "{headers:?}");
        }
        // HTTP/1.0 has no Host, and HTTP/2 has an authority in its place.
        assert_eq!(error_of(Version::HTTP_10, &[]), None);
        assert!(error_of(Version::HTTP_10, &[host, host]).is_some());
        assert_eq!(error_of(Version::HTTP_2, &[]), None);
    }
}
