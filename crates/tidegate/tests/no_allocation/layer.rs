//! The layer in front of a service, with the memory store: it allocates only its headers.

use std::convert::Infallible;
use std::future::{Future, Ready, ready};
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use http::{HeaderMap, Request, Response};
use tidegate::enforce::{Enforcer, Outcome};
use tidegate::http::{ClientAddress, HeaderStyle, LimitHeaders, PeerAddr, RateLimit, keys};
use tidegate::tower::RateLimitLayer;
use tidegate::{Limit, Limiter, MemoryStore, Quota, days, seconds};
use tower_layer::Layer;
use tower_service::Service;

use crate::counting::count_allocations;

/// A service that answers at once and allocates nothing.
#[derive(Clone)]
struct EmptyService;

impl Service<Request<()>> for EmptyService {
    type Response = Response<bytes::Bytes>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        ready(Ok(Response::new(bytes::Bytes::new())))
    }
}

fn call_service<S>(service: &mut S, request: Request<()>) -> S::Response
where
    S: Service<Request<()>, Error = Infallible>,
{
    let mut context = Context::from_waker(Waker::noop());
    let Poll::Ready(Ok(())) = service.poll_ready(&mut context) else { panic!("it is always ready") };
    match pin!(service.call(request)).poll(&mut context) {
        Poll::Ready(Ok(response)) => response,
        Poll::Pending => panic!("everything in process answers at once"),
    }
}

fn request_from(peer: impl Clone + Send + Sync + 'static) -> Request<()> {
    let mut request = Request::new(());
    request.extensions_mut().insert(peer);
    request
}

fn request() -> Request<()> {
    let mut request = request_from(PeerAddr([203, 0, 113, 7].into()));
    request.headers_mut().insert("x-api-key", "0123456789".parse().unwrap());
    request
}

/// Returns how often one admitted request allocates, and its headers.
fn allocations(rate_limit: &RateLimit) -> (u64, HeaderMap) {
    allocations_of(rate_limit, request)
}

fn allocations_of(rate_limit: &RateLimit, request: impl Fn() -> Request<()>) -> (u64, HeaderMap) {
    let mut service = RateLimitLayer::new(rate_limit.clone()).layer(EmptyService);
    // The first call of a thread to a limiter makes the thread's own copy of the limits.
    call_service(&mut service, request());
    let given = request();
    let (response, allocations) = count_allocations(|| call_service(&mut service, given));
    assert_eq!(response.status(), 200);
    (allocations, response.into_parts().0.headers)
}

fn generous_enforcer() -> Enforcer {
    Enforcer::from_quota(Quota::token_bucket(1_000, seconds(60)).unwrap())
}

#[test]
fn admitted_request_without_headers_allocates_nothing() {
    let rate_limit = RateLimit::new(generous_enforcer()).headers(LimitHeaders::new([]));
    let api_key = keys::header(http::HeaderName::from_static("x-api-key"));
    for (name, rate_limit) in [
        ("by address", rate_limit.clone()),
        ("by a header", rate_limit.clone().key(api_key.clone())),
        ("by both", rate_limit.clone().key(keys::both(keys::client(), api_key.clone()))),
        ("or else by address", rate_limit.clone().key(keys::either(keys::route(), keys::client()))),
        ("with a cost", rate_limit.clone().cost(2)),
        ("charged afterwards", rate_limit.clone().charge_when(|status, _| status == 200)),
        ("left alone", rate_limit.clone().skip(|_| true)),
        (
            "picked",
            RateLimit::pick({
                let enforcer = generous_enforcer();
                move |_| enforcer.clone()
            })
            .headers(LimitHeaders::new([])),
        ),
    ] {
        assert_eq!(allocations(&rate_limit).0, 0, "{name}");
    }
}

/// Four limits, of which all but the last have enough for a test.
fn four_limits() -> Limiter {
    let quotas = [
        Quota::token_bucket(1_000, seconds(60)).unwrap(),
        Quota::fixed_window(10_000, days(1)).unwrap(),
        Quota::sliding_window(10_000, seconds(3_600)).unwrap(),
        Quota::token_bucket(1, seconds(3_600)).unwrap(),
    ];
    let [second, day, hour, few] = quotas.map(Limit::new);
    let limits = [("second", second), ("day", day), ("hour", hour), ("few", few.shadow(true))];
    let builder = Limiter::builder().store(Arc::new(MemoryStore::builder().max_keys(1_000).build()));
    builder.limits(limits).deny("day", ["198.51.100.0/24"]).unwrap().build().unwrap()
}

#[test]
fn request_of_several_limits_allocates_one_list() {
    let limiter = four_limits();
    // The first decision of each outcome makes the labels of its counter.
    (0..2).for_each(|_| drop(limiter.limit("few", "warm").try_now()));
    let two = || limiter.enforcer("second").unwrap().and("day").unwrap();
    let silent = |enforcer| RateLimit::new(enforcer).headers(LimitHeaders::new([]));
    for (name, rate_limit) in [
        ("two", silent(two())),
        ("three", silent(two().and("hour").unwrap())),
        ("one of them in shadow mode", silent(two().and("hour").unwrap().and("few").unwrap())),
        ("all in shadow mode", silent(two().and("few").unwrap().shadow(true))),
        ("with a budget", silent(limiter.enforcer("second").unwrap().and_budget("day").unwrap()).cost(7)),
        ("a tier", silent(two().with_quota(Quota::token_bucket(50, seconds(1)).unwrap()))),
        ("the same twice", silent(two().and("second").unwrap())),
        ("by a header", silent(two()).key(keys::header(http::HeaderName::from_static("x-api-key")))),
    ] {
        // The list of their decisions.
        assert_eq!(allocations(&rate_limit).0, 1, "{name}");
    }
    // One list for the check, and one for the charge.
    assert_eq!(allocations(&silent(two()).charge_when(|status, _| status == 200)).0, 2);
    let (allocations, headers) = allocations(&RateLimit::new(two().and("hour").unwrap()));
    assert_eq!(headers["ratelimit"].to_str().unwrap().split(", ").count(), 3);
    // The list of decisions, two for the map, and for each of two headers its growing text and its value.
    assert!(allocations <= 9 && headers.len() == 2, "{allocations}");
}

#[test]
fn request_of_any_peer_allocates_nothing() {
    let rate_limit = RateLimit::new(generous_enforcer()).headers(LimitHeaders::new([]));
    for peer in ["203.0.113.7", "2001:db8::17", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "::ffff:203.0.113.7"] {
        let peer: IpAddr = peer.parse().unwrap();
        let whole = rate_limit.clone().client_address(ClientAddress::new().ipv6_prefix(128));
        for rate_limit in [&rate_limit, &whole] {
            assert_eq!(allocations_of(rate_limit, || request_from(PeerAddr(peer))).0, 0, "{peer}");
            #[cfg(feature = "axum")]
            {
                let peer = axum::extract::ConnectInfo(std::net::SocketAddr::from((peer, 4_242)));
                assert_eq!(allocations_of(rate_limit, || request_from(peer)).0, 0, "{peer:?}, by axum");
            }
        }
    }
}

#[test]
fn admitted_request_allocates_only_its_headers() {
    let styles = [HeaderStyle::Ietf, HeaderStyle::Draft03, HeaderStyle::Legacy];
    for styles in [&styles[..1], &styles[1..2], &styles[2..], &styles] {
        let rate_limit = RateLimit::new(generous_enforcer()).headers(LimitHeaders::new(styles.iter().copied()));
        let (allocations, headers) = allocations(&rate_limit);
        // The allocations for these headers in an empty map, and the values themselves.
        let (_, map) = count_allocations(|| {
            let mut map = HeaderMap::new();
            for (name, value) in &headers {
                map.insert(name.clone(), http::HeaderValue::from_bytes(value.as_bytes()).unwrap());
            }
            map
        });
        // In addition, each value may first have a text of its own.
        let most = map + headers.len() as u64;
        assert!(allocations <= most, "{styles:?}: {allocations} allocations for {} headers", headers.len());
    }
}

#[test]
fn denied_request_allocates_only_its_headers_and_body() {
    let rate_limit = RateLimit::new(Enforcer::from_quota(Quota::token_bucket(1, seconds(3_600)).unwrap()));
    let mut service = RateLimitLayer::new(rate_limit).layer(EmptyService);
    call_service(&mut service, request());
    call_service(&mut service, request());
    let given = request();
    let (response, allocations) = count_allocations(|| call_service(&mut service, given));
    assert_eq!((response.status().as_u16(), response.headers().len()), (429, 4));
    // Two for the map, a text and a value for each list of a limit, two for `Retry-After`, and a number and the text
    // for the body.
    assert!(allocations <= 10, "{allocations}");
}

#[test]
fn outcome_of_a_denial_allocates_nothing() {
    let enforcer = Enforcer::from_quota(Quota::fixed_window(1, days(300)).unwrap());
    let caller = tidegate::enforce::Caller::new("alice");
    let step = tidegate::enforce::Action::Limit;
    // The first denial makes the labels of its counter.
    (0..2).for_each(|_| drop(enforcer.try_apply(&caller, 1, step)));
    let (outcome, allocations) = count_allocations(|| enforcer.try_apply(&caller, 1, step));
    assert!(matches!(outcome, Some(Outcome::Limited(_))));
    assert_eq!(allocations, 0);
}
