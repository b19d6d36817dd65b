#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

use std::net::SocketAddr;

use http_body::Body;
use http_body_util::BodyExt;
use tidegate::http::adapter::strip_head_body;
use tidegate::http::{AdmittedRequest, Extensions, Gate, HeaderMap, RequestHead};
use tidegate::tower::admission::ResponseBody;
use warp::http::header::CONTENT_LENGTH;
use warp::http::{Method, Response, Uri};
use warp::path::FullPath;
use warp::reject::{Reject, Rejection};
use warp::{Filter, Reply};

/// Puts a gate in front of a filter, by [`admit`], the filter and [`finish`].
pub fn wrap<F, R>(
    gate: &Gate,
    filter: F,
) -> impl Filter<Extract = (warp::reply::Response,), Error = Rejection> + Clone + use<F, R>
where
    F: Filter<Extract = (R,), Error = Rejection> + Clone + Send + Sync + 'static,
    R: Reply + 'static,
{
    admit(gate).and(filter).then(|admitted: AdmittedRequest, reply: R| finish(admitted, reply))
}

/// Extracts an [`AdmittedRequest`] for a request that the gate admits, and rejects others with a [`GateRejection`]. The
/// handler creates its reply with [`finish`].
///
/// Values from outer services come from an [`Extensions`] among the request's own extensions.
pub fn admit(gate: &Gate) -> impl Filter<Extract = (AdmittedRequest,), Error = Rejection> + Clone + use<> {
    let gate = gate.clone();
    let query = warp::query::raw().or(warp::any().map(String::new)).unify();
    warp::method()
        .and(warp::path::full())
        .and(query)
        .and(warp::header::headers_cloned())
        .and(warp::addr::remote())
        .and(warp::ext::optional())
        .and_then(
            move |method: Method,
                  path: FullPath,
                  query: String,
                  headers: HeaderMap,
                  peer: Option<SocketAddr>,
                  extensions: Option<Extensions>| {
                let (uri, extensions) = (uri(path.as_str(), &query), extensions.unwrap_or_default());
                let head = RequestHead::new(&method, &uri, &headers, &extensions);
                let entering = gate.admit(&head.with_peer(peer.map(|peer| peer.ip())));
                let rejection = move |answer| warp::reject::custom(GateRejection(strip_head_body(&method, answer)));
                async { entering.await.map_err(rejection) }
            },
        )
}

fn uri(path: &str, query: &str) -> Uri {
    let uri = if query.is_empty() { path.parse() } else { format!("{path}?{query}").parse() };
    uri.unwrap_or_default()
}

/// Creates the response of an admitted request. Adds the rate limit headers, and keeps the request in flight until the
/// body ends.
pub async fn finish(admitted: AdmittedRequest, reply: impl Reply) -> warp::reply::Response {
    let (mut head, body) = reply.into_response().into_parts();
    let length = body.size_hint().exact();
    let in_flight = admitted.finish(head.status, &mut head.headers, length).await;
    if in_flight.is_over() {
        return Response::from_parts(head, body);
    }
    // The only foreign bodies that warp accepts are streams, which do not know their length.
    if let Some(length) = length {
        head.headers.insert(CONTENT_LENGTH, length.into());
    }
    let pieces = ResponseBody::new(body, in_flight).into_data_stream();
    Response::from_parts(head, warp::reply::stream(pieces).into_response().into_body())
}

/// The rejection of a request that a gate turns away, with its response. See [`recover`].
#[derive(Debug)]
pub struct GateRejection(Response<String>);

impl Reject for GateRejection {}

impl GateRejection {
    /// Returns the response that the gate has chosen.
    pub fn response(&self) -> Response<String> {
        self.0.clone()
    }
}

/// Answers requests that gates have turned away, for `Filter::recover`. Other rejections stay rejections.
pub async fn recover(rejection: Rejection) -> Result<warp::reply::Response, Rejection> {
    match rejection.find::<GateRejection>() {
        Some(rejected) => Ok(rejected.response().into_response()),
        None => Err(rejection),
    }
}
