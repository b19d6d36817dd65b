//! Readiness and cancellation as `tower` requires them, with an immediate store and a waiting one.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use axum::body::Bytes;
use axum::http::{Request, Response};
use http_body_util::Full;
use tidegate::http::{PeerAddr, RateLimit};
use tidegate::tower::{HttpFormat, RateLimitLayer, RateLimitService};
use tidegate::{Limiter, MemoryStore};
use tidegate_testkit::{Faults, FaultyStore};
use tower::limit::ConcurrencyLimitLayer;
use tower::{Layer, Service, ServiceExt};

use crate::support::{LOOPBACK, clock, left, limiter, memory, waiting_limiter, window};

/// A service that panics when it is called without being ready, and that is ready for one call only. As `tower`
/// requires, a clone must become ready by itself.
#[derive(Default)]
struct StrictService {
    ready: bool,
    calls: Arc<AtomicUsize>,
}

impl StrictService {
    fn new() -> (Self, Arc<AtomicUsize>) {
        let strict = StrictService::default();
        let calls = Arc::clone(&strict.calls);
        (strict, calls)
    }
}

impl Clone for StrictService {
    fn clone(&self) -> Self {
        StrictService { ready: false, calls: Arc::clone(&self.calls) }
    }
}

impl Service<Request<()>> for StrictService {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        assert!(std::mem::take(&mut self.ready), "called without being ready");
        self.calls.fetch_add(1, Ordering::SeqCst);
        ready(Ok(Response::default()))
    }
}

fn request() -> Request<()> {
    let mut request = Request::new(());
    request.extensions_mut().insert(PeerAddr(LOOPBACK.parse().unwrap()));
    request
}

fn limited<S>(limiter: &Limiter, service: S) -> RateLimitService<S, HttpFormat> {
    RateLimitLayer::new(limiter.enforcer("api").unwrap()).layer(service)
}

/// A limiter on a store that hangs on command.
fn hanging_limiter() -> (Limiter, Faults) {
    let store: FaultyStore<MemoryStore> = FaultyStore::new(memory(&clock()));
    let faults = store.faults();
    (Limiter::builder().limit("api", window(9)).store(store).build().unwrap(), faults)
}

#[tokio::test]
async fn layer_calls_the_service_that_was_ready() {
    for limiter in [limiter(window(4)), waiting_limiter(window(4))] {
        let (strict, calls) = StrictService::new();
        let mut service = limited(&limiter, strict);
        for (call, status) in [(1, 200), (2, 200), (3, 200), (4, 200), (4, 429), (4, 429)] {
            let response = service.ready().await.unwrap().call(request()).await.unwrap();
            assert_eq!((response.status().as_u16(), calls.load(Ordering::SeqCst)), (status, call));
        }
        let response = service.clone().oneshot(request()).await.unwrap();
        assert_eq!((response.status().as_u16(), calls.load(Ordering::SeqCst)), (429, 4));
    }
}

#[tokio::test]
async fn skipped_request_calls_a_ready_service() {
    let limiter = waiting_limiter(window(1));
    let (strict, calls) = StrictService::new();
    let limits = RateLimit::new(limiter.enforcer("api").unwrap()).skip(|_| true);
    let mut service = RateLimitLayer::new(limits).layer(strict);
    for _ in 0..3 {
        service.ready().await.unwrap().call(request()).await.unwrap();
    }
    assert_eq!(calls.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn clones_share_their_limits() {
    for limiter in [limiter(window(2)), waiting_limiter(window(2))] {
        let first = limited(&limiter, StrictService::new().0);
        let clones = [first.clone(), first.clone(), first];
        let mut statuses = Vec::new();
        for service in clones {
            statuses.push(service.oneshot(request()).await.unwrap().status().as_u16());
        }
        assert_eq!(statuses, [200, 200, 429]);
    }
}

#[tokio::test]
async fn cancelled_request_does_not_reach_the_service() {
    let (limiter, faults) = hanging_limiter();
    let (strict, calls) = StrictService::new();
    let mut service = limited(&limiter, strict);
    faults.hang();
    {
        let mut response = pin!(service.ready().await.unwrap().call(request()));
        assert!(response.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        assert_eq!(faults.held_calls(), 1);
    }
    assert_eq!(faults.held_calls(), 0, "the store call was not cancelled");
    faults.release();
    faults.pass();
    assert_eq!((calls.load(Ordering::SeqCst), left(&limiter, "api", LOOPBACK).await), (0, 9));
    // The service still becomes ready and serves.
    service.ready().await.unwrap().call(request()).await.unwrap();
    assert_eq!((calls.load(Ordering::SeqCst), left(&limiter, "api", LOOPBACK).await), (1, 8));
}

/// Returns whether a clone of the service is ready.
fn clone_is_ready<S: Service<Request<()>> + Clone>(service: &S) -> bool {
    service.clone().poll_ready(&mut Context::from_waker(Waker::noop())).is_ready()
}

#[tokio::test]
async fn cancelled_request_releases_the_ready_slot() {
    let (limiter, faults) = hanging_limiter();
    let one_at_a_time = ConcurrencyLimitLayer::new(1).layer(StrictService::new().0);
    let outside = one_at_a_time.clone();
    let mut service = limited(&limiter, one_at_a_time);
    faults.hang();
    let mut response = Box::pin(service.ready().await.unwrap().call(request()));
    assert!(response.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    // The request holds the one slot.
    assert!(!clone_is_ready(&service) && !clone_is_ready(&outside));
    drop(response);
    assert!(clone_is_ready(&service) && clone_is_ready(&outside));
}

#[tokio::test]
async fn denied_request_releases_the_ready_slot() {
    for limiter in [limiter(window(1)), waiting_limiter(window(1))] {
        let one_at_a_time = ConcurrencyLimitLayer::new(1).layer(StrictService::new().0);
        let outside = one_at_a_time.clone();
        let service = limited(&limiter, one_at_a_time);
        for status in [200, 429, 429] {
            let response = service.clone().oneshot(request()).await.unwrap();
            assert_eq!(response.status().as_u16(), status);
            drop(response);
            assert!(clone_is_ready(&service) && clone_is_ready(&outside), "{status}");
        }
    }
}

#[tokio::test]
async fn requests_of_one_service_wait_concurrently() {
    let (limiter, faults) = hanging_limiter();
    let (strict, calls) = StrictService::new();
    let mut service = limited(&limiter, strict);
    faults.hang();
    let mut responses = Vec::new();
    for _ in 0..3 {
        let mut response = Box::pin(service.ready().await.unwrap().call(request()));
        assert!(response.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        responses.push(response);
    }
    assert_eq!(faults.held_calls(), 3);
    faults.release();
    for response in responses {
        assert_eq!(response.await.unwrap().status().as_u16(), 200);
    }
    assert_eq!((calls.load(Ordering::SeqCst), left_after_recovery(&limiter, &faults).await), (3, 6));
}

async fn left_after_recovery(limiter: &Limiter, faults: &Faults) -> u64 {
    faults.pass();
    left(limiter, "api", LOOPBACK).await
}
