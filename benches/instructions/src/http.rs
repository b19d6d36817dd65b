//! HTTP: the client address, the limit headers, and a whole request through the layers.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::net::IpAddr;
use std::task::{Context, Poll};

use http::header::{FORWARDED, HeaderMap, HeaderName};
use http::{Request, Response};
use tidegate::Quota;
use tidegate::concurrency::Concurrency;
use tidegate::http::{ClientAddress, HeaderStyle, LimitHeaders, PeerAddr, RateLimit, RequestHead, TrustProxy};
use tidegate::tower::{AdmissionLayer, RateLimitLayer};
use tower_layer::Layer;
use tower_service::Service;

use crate::fixtures::{TickingClock, addresses, keys, large_quota, limiter, poll_once, quota_of_one};
use crate::{Path, Paths, counted_call};

pub(crate) const PATHS: Paths = &[
    ("http/client/peer", || find_client(ClientAddress::new(), None)),
    ("http/client/x-forwarded-for", || {
        let header = HeaderName::from_static("x-forwarded-for");
        find_client(ClientAddress::new().trust(trusted()), Some((header, "192.0.2.66, 203.0.113.9")))
    }),
    ("http/client/forwarded", || {
        let forwarded = "for=192.0.2.66, for=\"[2001:db8::17]:4711\"";
        find_client(ClientAddress::new().trust(trusted()).header(FORWARDED), Some((FORWARDED, forwarded)))
    }),
    ("http/headers/ietf", || write_headers(HeaderStyle::Ietf)),
    ("http/headers/draft03", || write_headers(HeaderStyle::Draft03)),
    ("http/headers/legacy", || write_headers(HeaderStyle::Legacy)),
    ("http/begin-decide-write", adapter_steps),
    ("http/layer/allowed", || run_layer(RateLimitLayer::new(limits(large_quota())), 200)),
    ("http/layer/allowed-silent", || {
        run_layer(RateLimitLayer::new(limits(large_quota()).headers(LimitHeaders::new([]))), 200)
    }),
    ("http/layer/allowed-by-key", || {
        let by_key = limits(large_quota()).key(tidegate::http::keys::client());
        run_layer(RateLimitLayer::new(by_key.headers(LimitHeaders::new([]))), 200)
    }),
    ("http/layer/denied", || run_layer(RateLimitLayer::new(limits(quota_of_one())), 429)),
    ("http/admission/allowed", || {
        let pool = Concurrency::fixed(100).clock(TickingClock::new());
        run_layer(AdmissionLayer::new(pool).limits(limits(large_quota())), 200)
    }),
];

fn trusted() -> TrustProxy {
    TrustProxy::networks(["11.0.0.0/8"]).expect("a network")
}

fn limits(quota: Quota) -> RateLimit {
    RateLimit::new(limiter(&[("api", quota)]).enforcer("api").expect("the limit is there"))
}

/// Finds the address of a client, and creates its key.
fn find_client(clients: ClientAddress, header: Option<(HeaderName, &'static str)>) -> Path {
    let (peers, mut headers) = (addresses(), usual_headers());
    headers.extend(header.map(|(name, value)| (name, value.parse().expect("a value"))));
    let expects_peer = headers.len() == usual_headers().len();
    Box::new(move |key| {
        let (client, _key) = counted_call(|| {
            let client = clients.find(peers[key], &headers);
            (client, client.key())
        });
        (client.address() == peers[key]) == expects_peer
    })
}

/// Writes the limit headers of an admitted request.
fn write_headers(style: HeaderStyle) -> Path {
    let enforcer = limiter(&[("api", large_quota())]).enforcer("api").unwrap();
    let outcomes: Vec<_> = keys().into_iter().map(|key| poll_once(enforcer.enforce(key, 1))).collect();
    let headers = LimitHeaders::new([style]);
    Box::new(move |key| {
        let mut map = HeaderMap::with_capacity(8);
        counted_call(|| headers.write(&outcomes[key], &mut map));
        !map.is_empty()
    })
}

/// Makes the calls of an adapter: begins, decides, and writes the headers of the response.
fn adapter_steps() -> Path {
    let (limits, requests) = (limits(large_quota()), addresses().into_iter().map(request).collect::<Vec<_>>());
    Box::new(move |key| {
        let mut map = HeaderMap::with_capacity(8);
        let outcome = counted_call(|| {
            let outcome = limits.begin(&RequestHead::from_request(&requests[key]))?.try_decide()?;
            limits.write_headers(&outcome, &mut map);
            Some(outcome)
        });
        outcome.is_some_and(|outcome| outcome.is_allowed()) && !map.is_empty()
    })
}

/// Sends requests through a layer, in front of an empty service.
fn run_layer<L, B: 'static>(layer: L, status: u16) -> Path
where
    L: Layer<EmptyService, Service: Service<Request<()>, Response = Response<B>, Error = Infallible> + 'static>,
{
    let (mut service, addresses) = (layer.layer(EmptyService), addresses());
    Box::new(move |key| {
        let request = request(addresses[key]);
        let Ok(response) = counted_call(|| poll_once(service.call(request)));
        response.status() == status
    })
}

/// A service that returns an empty response.
#[derive(Clone)]
struct EmptyService;

impl Service<Request<()>> for EmptyService {
    type Response = Response<String>;
    type Error = Infallible;
    type Future = Ready<Result<Response<String>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        ready(Ok(Response::new(String::new())))
    }
}

fn request(peer: IpAddr) -> Request<()> {
    let mut request = Request::new(());
    *request.headers_mut() = usual_headers();
    request.extensions_mut().insert(PeerAddr(peer));
    request
}

/// Returns the headers that every client sends.
fn usual_headers() -> HeaderMap {
    let usual = [("host", "localhost"), ("user-agent", "bench"), ("accept", "*/*")];
    usual.map(|(name, value)| (HeaderName::from_static(name), value.parse().expect("a value"))).into_iter().collect()
}
