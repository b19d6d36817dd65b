//! A [`Gate`] is a filter of warp.
//!
//! ```
//! use tidegate::http::Gate;
//! use tidegate::warp::{gated, recover};
//! use tidegate::{Limiter, Quota, seconds};
//! use warp::Filter;
//!
//! let limiter = Limiter::builder().limit("api", Quota::token_bucket(10, seconds(1))?).build()?;
//! let gate = Gate::new((&limiter, "api"));
//!
//! let hello = warp::path("hello").and(gated(&gate, warp::get().map(|| "Hello!")));
//! let routes = hello.recover(recover);
//! # let _ = warp::service(routes);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A request that is turned away is a rejection, [`Refused`], which [`recover`] makes the answer of. As with every
//! rejection, warp tries the routes after the one that has rejected: the path belongs before the gate, and no other route
//! should take the same one. warp knows no templates of routes.
//!
//! What a filter behind the gate rejects is not charged for by
//! [`charge_when`](crate::http::RateLimit::charge_when): what it is answered with is found out later. A filter that recovers
//! behind the gate answers, and is.

use std::net::SocketAddr;

use http::header::CONTENT_LENGTH;
use http::{Extensions, HeaderMap, Method, Response, Uri};
use http_body::Body;
use http_body_util::BodyExt;
use warp::path::FullPath;
use warp::reject::{Reject, Rejection};
use warp::{Filter, Reply};

use crate::enforce::Outcome;
use crate::http::{Gate, Incoming, Passage, to_method};
use crate::tower::admission::ResponseBody;

/// A filter behind a gate: [`limited`], the filter, and the gate's last word.
pub fn gated<F, R>(
    gate: &Gate,
    filter: F,
) -> impl Filter<Extract = (warp::reply::Response,), Error = Rejection> + Clone + use<F, R>
where
    F: Filter<Extract = (R,), Error = Rejection> + Clone + Send + Sync + 'static,
    R: Reply + 'static,
{
    limited(gate).and(filter).then(|passed: Passed, reply: R| passed.reply(reply))
}

/// Extracts a request that the gate has let in, for a handler that makes its reply with [`Passed::reply`]. What earlier
/// services have said about the request is a [`tidegate::http::Extensions`](crate::http::Extensions) among its own.
pub fn limited(gate: &Gate) -> impl Filter<Extract = (Passed,), Error = Rejection> + Clone + use<> {
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
                let incoming = Incoming::new(&method, &uri, &headers, &extensions);
                let entering = gate.enter(&incoming.with_peer(peer.map(|peer| peer.ip())));
                let refused = move |answer| warp::reject::custom(Refused(to_method(&method, answer)));
                async { entering.await.map(Passed).map_err(refused) }
            },
        )
}

fn uri(path: &str, query: &str) -> Uri {
    let uri = if query.is_empty() { path.parse() } else { format!("{path}?{query}").parse() };
    uri.unwrap_or_default()
}

/// A request that a gate has let in.
#[derive(Debug)]
pub struct Passed(Passage);

impl Passed {
    /// What was decided, where the gate [hands it over](crate::http::RateLimit::extension).
    pub fn told(&self) -> Option<&Outcome> {
        self.0.told()
    }

    /// The reply, with what is to be said of the request. It is in flight until the body ends.
    pub async fn reply(self, reply: impl Reply) -> warp::reply::Response {
        let (mut head, body) = reply.into_response().into_parts();
        let length = body.size_hint().exact();
        let in_flight = self.0.conclude(head.status, &mut head.headers, length).await;
        if in_flight.is_over() {
            return Response::from_parts(head, body);
        }
        // Of all bodies there could be, warp takes streams, which do not know how long they are.
        if let Some(length) = length {
            head.headers.insert(CONTENT_LENGTH, length.into());
        }
        let pieces = ResponseBody::new(body, in_flight).into_data_stream();
        Response::from_parts(head, warp::reply::stream(pieces).into_response().into_body())
    }
}

/// A request that was turned away, with what is answered to it.
#[derive(Debug)]
pub struct Refused(Response<String>);

impl Reject for Refused {}

impl Refused {
    /// What is answered.
    pub fn response(&self) -> Response<String> {
        self.0.clone()
    }
}

/// For `Filter::recover`: answers what gates have turned away, and leaves other rejections as they are.
pub async fn recover(rejection: Rejection) -> Result<warp::reply::Response, Rejection> {
    match rejection.find::<Refused>() {
        Some(refused) => Ok(refused.response().into_response()),
        None => Err(rejection),
    }
}
