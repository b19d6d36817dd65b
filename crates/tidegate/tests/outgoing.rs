//! The layer for outgoing requests, against a server with scripted responses.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode};
use tidegate::client::{OutgoingError, OutgoingLayer, OutgoingService};
use tidegate::store::BoxFuture;
use tidegate::{
    Clock, Error, Limit, Limiter, ManualClock, MemoryStore, OnStoreError, Quota, Sleeper, StoreError, StoreErrorKind,
    Timestamp, hours, minutes, seconds,
};
use tidegate_testkit::FaultyStore;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::{JoinHandle, yield_now};
use tower::{Layer, ServiceExt};

type Headers = &'static [(&'static str, &'static str)];
type ScriptedResponse = (u16, Headers);

/// A server that sends scripted responses in order and `200` afterwards, and counts its requests.
#[derive(Clone)]
struct ScriptedServer {
    address: SocketAddr,
    responses: Arc<Mutex<VecDeque<ScriptedResponse>>>,
    requests: Arc<Mutex<usize>>,
}

impl ScriptedServer {
    async fn start(script: &[ScriptedResponse]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let responses = Arc::new(Mutex::new(script.iter().copied().collect()));
        let server = ScriptedServer { address: listener.local_addr().unwrap(), responses, requests: Arc::default() };
        let responder = server.clone();
        let router = Router::new().fallback(move || {
            let (status, headers) = responder.next_response();
            async move { (status, headers) }
        });
        tokio::spawn(async { axum::serve(listener, router).await.unwrap() });
        server
    }

    fn next_response(&self) -> (StatusCode, HeaderMap) {
        *self.requests.lock().unwrap() += 1;
        let (status, headers) = self.responses.lock().unwrap().pop_front().unwrap_or((200, &[]));
        let header = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        (StatusCode::from_u16(status).unwrap(), headers.iter().map(header).collect())
    }

    fn request_count(&self) -> usize {
        *self.requests.lock().unwrap()
    }
}

type Client = OutgoingService<reqwest::Client>;

async fn send(client: &Client, host: &str, port: u16) -> Result<u16, OutgoingError<reqwest::Error>> {
    let request = reqwest::Client::new().get(format!("http://{host}:{port}/")).build().unwrap();
    client.clone().oneshot(request).await.map(|response| response.status().as_u16())
}

async fn get(client: &Client, server: &ScriptedServer) -> Result<u16, OutgoingError<reqwest::Error>> {
    send(client, "127.0.0.1", server.address.port()).await
}

fn clock() -> ManualClock {
    // Fri, 15 Jan 2027 08:00:00 GMT
    ManualClock::new(Timestamp::from_millis(1_800_000_000_000))
}

fn honor_retry_after(clock: &ManualClock) -> OutgoingLayer {
    OutgoingLayer::honor_retry_after().sleeper(clock.clone())
}

/// A limiter of `calls` a minute.
fn limiter(clock: &ManualClock, calls: u64) -> Limiter {
    let store = MemoryStore::builder().clock(clock.clone()).build();
    let quota = Quota::fixed_window(calls, minutes(1)).unwrap();
    Limiter::builder().store(store).sleeper(clock.clone()).limit("calls", quota).build().unwrap()
}

/// A layer with a limit of two a minute.
fn limited(clock: &ManualClock) -> OutgoingLayer {
    OutgoingLayer::new(&limiter(clock, 2), "calls").unwrap().sleeper(clock.clone())
}

/// Waits until a task sleeps on the clock.
async fn until_sleeping(clock: &ManualClock) {
    let waits = async {
        while clock.sleepers() == 0 {
            yield_now().await;
        }
    };
    tokio::time::timeout(seconds(30), waits).await.expect("no task sleeps");
}

/// Returns the wait of the next request, which is not sent.
async fn remaining_backoff(client: &Client, server: &ScriptedServer) -> Duration {
    let requests = server.request_count();
    let error = get(client, server).await.unwrap_err();
    assert_eq!(server.request_count(), requests, "it was sent");
    assert!(matches!(error, OutgoingError::BackingOff(_)), "{error:?}");
    error.retry_after().unwrap()
}

#[tokio::test]
async fn request_over_the_limit_fails_before_it_is_sent() {
    let (clock, server) = (clock(), ScriptedServer::start(&[]).await);
    let client = limited(&clock).layer(reqwest::Client::new());
    for _ in 0..2 {
        assert_eq!(get(&client, &server).await.unwrap(), 200);
    }
    let error = get(&client, &server).await.unwrap_err();
    assert!(matches!(error, OutgoingError::Limited(_)), "{error:?}");
    assert_eq!((error.retry_after(), server.request_count()), (Some(minutes(1)), 2));
    // Another host has its own.
    assert_eq!(send(&client, "localhost", server.address.port()).await.unwrap(), 200);
}

#[tokio::test]
async fn request_over_the_limit_waits_within_max_wait() {
    let (clock, server) = (clock(), ScriptedServer::start(&[]).await);
    let client = limited(&clock).max_wait(minutes(2)).layer(reqwest::Client::new());
    for _ in 0..2 {
        assert_eq!(get(&client, &server).await.unwrap(), 200);
    }
    let third = tokio::spawn({
        let (client, server) = (client.clone(), server.clone());
        async move { get(&client, &server).await }
    });
    until_sleeping(&clock).await;
    assert_eq!(server.request_count(), 2);
    clock.advance(minutes(1));
    assert_eq!((third.await.unwrap().unwrap(), server.request_count()), (200, 3));
}

#[tokio::test]
async fn retry_after_in_seconds_delays_the_next_request() {
    let (clock, server) = (clock(), ScriptedServer::start(&[(429, &[("retry-after", "30")])]).await);
    let client = honor_retry_after(&clock).layer(reqwest::Client::new());
    assert_eq!(get(&client, &server).await.unwrap(), 429);
    assert_eq!(remaining_backoff(&client, &server).await, seconds(30));
    clock.advance(seconds(29));
    assert_eq!(remaining_backoff(&client, &server).await, seconds(1));
    clock.advance(seconds(1));
    assert_eq!(get(&client, &server).await.unwrap(), 200);
}

#[tokio::test]
async fn retry_after_as_a_date_delays_until_that_date() {
    let script = [
        (503, &[("retry-after", "Fri, 15 Jan 2027 08:02:00 GMT")][..]),
        (503, &[("retry-after", "Fri, 15 Jan 2027 07:00:00 GMT")]),
    ];
    let (clock, server) = (clock(), ScriptedServer::start(&script).await);
    let client = honor_retry_after(&clock).layer(reqwest::Client::new());
    assert_eq!(get(&client, &server).await.unwrap(), 503);
    assert_eq!(remaining_backoff(&client, &server).await, minutes(2));
    clock.advance(minutes(2));
    // The second date has passed: nothing to wait for.
    assert_eq!(get(&client, &server).await.unwrap(), 503);
    assert_eq!(get(&client, &server).await.unwrap(), 200);
}

#[tokio::test]
async fn backoff_is_at_most_max_backoff() {
    let cases: [ScriptedResponse; 4] = [
        (429, &[("retry-after", "99999999999")]),
        (429, &[("retry-after", "99999999999999999999999")]),
        (503, &[("retry-after", "Fri, 31 Dec 9999 23:59:59 GMT")]),
        (200, &[("ratelimit", r#""d";r=0;t=999999999999"#)]),
    ];
    for response in cases {
        for (longest, layer) in [(hours(1), None), (minutes(5), Some(minutes(5)))] {
            let (clock, server) = (clock(), ScriptedServer::start(&[response]).await);
            let layer = layer
                .map_or_else(|| honor_retry_after(&clock), |longest| honor_retry_after(&clock).max_backoff(longest));
            let client = layer.layer(reqwest::Client::new());
            get(&client, &server).await.unwrap();
            assert_eq!(remaining_backoff(&client, &server).await, longest, "{response:?}");
            clock.advance(longest);
            assert_eq!(get(&client, &server).await.unwrap(), 200, "{response:?}");
        }
    }
}

#[tokio::test]
async fn overload_without_retry_after_gets_the_default_backoff() {
    for (status, has_backoff) in [(503, true), (429, true), (500, false), (200, false)] {
        let (clock, server) = (clock(), ScriptedServer::start(&[(status, &[])]).await);
        let client = honor_retry_after(&clock).default_backoff(seconds(5)).layer(reqwest::Client::new());
        assert_eq!(get(&client, &server).await.unwrap(), status);
        match has_backoff {
            true => assert_eq!(remaining_backoff(&client, &server).await, seconds(5)),
            false => assert_eq!(get(&client, &server).await.unwrap(), 200),
        }
    }
}

#[tokio::test]
async fn exhausted_rate_limit_header_delays_even_after_a_success() {
    let cases: [(Headers, Option<u64>); 6] = [
        (&[("ratelimit", r#""api";r=0;t=30"#)], Some(30)),
        (&[("ratelimit", r#""api";r=1;t=30"#)], None),
        (&[("ratelimit", r#""burst";r=0;t=2, "daily";r=0;t=90, "other";r=5;t=900"#)], Some(90)),
        (&[("ratelimit", r#""burst";r=0;t=2"#), ("ratelimit", r#""daily";r=0;t=7"#)], Some(7)),
        (&[("ratelimit", "not; a = list")], None),
        (&[("ratelimit", r#""api";r=0;t=-5"#)], None),
    ];
    for (headers, wait) in cases {
        let (clock, server) = (clock(), ScriptedServer::start(&[(200, headers)]).await);
        let client = honor_retry_after(&clock).layer(reqwest::Client::new());
        assert_eq!(get(&client, &server).await.unwrap(), 200);
        match wait {
            Some(wait) => assert_eq!(remaining_backoff(&client, &server).await, seconds(wait), "{headers:?}"),
            None => assert_eq!(get(&client, &server).await.unwrap(), 200, "{headers:?}"),
        }
    }
}

#[tokio::test]
async fn request_within_max_wait_is_sent_after_the_backoff() {
    let (clock, server) = (clock(), ScriptedServer::start(&[(429, &[("retry-after", "30")])]).await);
    let client = honor_retry_after(&clock).max_wait(seconds(30)).layer(reqwest::Client::new());
    assert_eq!(get(&client, &server).await.unwrap(), 429);
    let next = tokio::spawn({
        let (client, server) = (client.clone(), server.clone());
        async move { get(&client, &server).await }
    });
    until_sleeping(&clock).await;
    assert_eq!(server.request_count(), 1);
    clock.advance(seconds(30));
    assert_eq!((next.await.unwrap().unwrap(), server.request_count()), (200, 2));
}

#[tokio::test]
async fn backoff_of_one_host_does_not_delay_another() {
    let (clock, server) = (clock(), ScriptedServer::start(&[(429, &[("retry-after", "30")])]).await);
    let client = honor_retry_after(&clock).layer(reqwest::Client::new());
    assert_eq!(get(&client, &server).await.unwrap(), 429);
    assert_eq!(send(&client, "localhost", server.address.port()).await.unwrap(), 200);
    assert_eq!(remaining_backoff(&client, &server).await, seconds(30));
}

#[tokio::test]
async fn backoff_after_a_redirect_is_for_the_final_host() {
    let (clock, busy) = (clock(), ScriptedServer::start(&[(429, &[("retry-after", "30")])]).await);
    let location: &'static str = format!("http://{}/", busy.address).leak();
    let first = ScriptedServer::start(&[(302, vec![("location", location)].leak())]).await;
    let client = honor_retry_after(&clock).layer(reqwest::Client::new());
    assert_eq!(get(&client, &first).await.unwrap(), 429);
    assert_eq!(remaining_backoff(&client, &busy).await, seconds(30));
    assert_eq!(get(&client, &first).await.unwrap(), 200);
}

#[tokio::test]
async fn layer_wraps_any_tower_service_of_http_requests() {
    let clock = clock();
    let service = tower::service_fn(async |request: axum::http::Request<()>| {
        let status = if request.uri().path() == "/busy" { 503 } else { 200 };
        Ok::<_, std::io::Error>(axum::http::Response::builder().status(status).body(()).unwrap())
    });
    let client = honor_retry_after(&clock).layer(service);
    let ask = |uri: &str| client.clone().oneshot(axum::http::Request::get(uri).body(()).unwrap());
    assert_eq!(ask("http://one.test/busy").await.unwrap().status(), 503);
    // User names and spellings do not make another host.
    assert_eq!(ask("http://me@ONE.test/").await.unwrap_err().retry_after(), Some(seconds(1)));
    assert_eq!(ask("http://two.test/").await.unwrap().status(), 200);
}

#[tokio::test]
async fn broken_store_follows_the_failure_policy() {
    let quota = Quota::token_bucket(5, minutes(1)).unwrap();
    for (policy, within) in OnStoreError::ALL.into_iter().flat_map(|policy| [(policy, 0), (policy, 1)]) {
        let server = ScriptedServer::start(&[]).await;
        let store = FaultyStore::new(MemoryStore::new());
        store.faults().fail(StoreError::new(StoreErrorKind::Unavailable, "unplugged"));
        let limit = Limit::new(quota).on_store_error(policy);
        let limiter = Limiter::builder().limit("out", limit).store(store).build().unwrap();
        let layer = OutgoingLayer::new(&limiter, "out").unwrap().max_wait(seconds(within));
        let answer = send(&layer.layer(reqwest::Client::new()), "127.0.0.1", server.address.port()).await;
        match policy {
            OnStoreError::Open | OnStoreError::Local => assert_eq!(answer.unwrap(), 200),
            _ => assert!(matches!(answer, Err(OutgoingError::Limiter(_))) && server.request_count() == 0),
        }
    }
}

#[tokio::test]
async fn closed_limiter_sends_nothing_under_any_policy() {
    for within in [0, 1] {
        let server = ScriptedServer::start(&[]).await;
        let limit = Limit::new(Quota::token_bucket(5, minutes(1)).unwrap()).on_store_error(OnStoreError::Open);
        let limiter = Limiter::builder().limit("out", limit).build().unwrap();
        let client =
            OutgoingLayer::new(&limiter, "out").unwrap().max_wait(seconds(within)).layer(reqwest::Client::new());
        assert_eq!(get(&client, &server).await.unwrap(), 200);
        limiter.close().await;
        let answer = get(&client, &server).await;
        assert!(matches!(answer, Err(OutgoingError::Limiter(Error::Closed))), "{answer:?}");
        assert_eq!(server.request_count(), 1);
    }
}

/// A host that answers `429` when notified.
struct SlowHost {
    host: Arc<Notify>,
    layer: OutgoingLayer,
}

type SendResult = Result<StatusCode, OutgoingError<Infallible>>;

impl SlowHost {
    fn new(layer: OutgoingLayer) -> Self {
        SlowHost { host: Arc::default(), layer }
    }

    /// Sends a request, and runs its task until it waits.
    async fn send(&self) -> JoinHandle<SendResult> {
        let host = Arc::clone(&self.host);
        let service = tower::service_fn(move |_: Request<()>| {
            let host = Arc::clone(&host);
            async move {
                host.notified().await;
                Ok(Response::builder().status(429).header("retry-after", "8").body(()).unwrap())
            }
        });
        let request = Request::get("http://slow.test/").body(()).unwrap();
        let sent = self.layer.layer(service).oneshot(request);
        let sent = tokio::spawn(async { sent.await.map(|response| response.status()) });
        let_tasks_run().await;
        sent
    }
}

/// Runs other tasks until they wait.
async fn let_tasks_run() {
    for _ in 0..100 {
        yield_now().await;
    }
}

#[tokio::test]
async fn unsent_request_is_refunded() {
    let clock = clock();
    let limiter = limiter(&clock, 1);
    let slow =
        SlowHost::new(OutgoingLayer::new(&limiter, "calls").unwrap().max_wait(seconds(62)).sleeper(clock.clone()));
    let (first, second) = (slow.send().await, slow.send().await);
    clock.advance(seconds(58));
    slow.host.notify_one();
    assert_eq!(first.await.unwrap().unwrap(), 429);
    clock.advance(seconds(2));
    let error = second.await.unwrap().unwrap_err();
    assert_eq!(error.retry_after(), Some(seconds(6)), "{error:?}");
    assert_eq!(limiter.check("calls", "slow.test").await.unwrap().remaining(), 1);
}

/// A clock that can be set back. Its sleeps are not affected.
#[derive(Clone)]
struct SettableClock {
    clock: ManualClock,
    back: Arc<AtomicU64>,
}

impl SettableClock {
    fn set_back(&self, span: Duration) {
        self.back.store(span.as_micros() as u64, Ordering::Relaxed);
    }
}

impl Clock for SettableClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.clock.now().as_micros() - self.back.load(Ordering::Relaxed))
    }
}

impl Sleeper for SettableClock {
    fn sleep(&self, span: Duration) -> BoxFuture<'static, ()> {
        self.clock.sleep(span)
    }
}

#[tokio::test]
async fn clock_set_back_in_the_queue_does_not_lengthen_the_wait() {
    let clock = SettableClock { clock: clock(), back: Arc::default() };
    let limiter = limiter(&clock.clock, 1);
    let slow =
        SlowHost::new(OutgoingLayer::new(&limiter, "calls").unwrap().max_wait(seconds(62)).sleeper(clock.clone()));
    let (first, second) = (slow.send().await, slow.send().await);
    clock.set_back(hours(1));
    clock.clock.advance(seconds(59));
    slow.host.notify_one();
    assert_eq!(first.await.unwrap().unwrap(), 429);
    // Now it has its turn, and waits for the host.
    for _ in 0..3 {
        assert!(!second.is_finished());
        clock.clock.advance(seconds(1));
        let_tasks_run().await;
    }
    assert!(second.is_finished(), "it waits for longer than it may");
    assert!(matches!(second.await.unwrap(), Err(OutgoingError::BackingOff(_))));
}

#[tokio::test]
async fn clock_set_back_during_a_backoff_does_not_lengthen_the_wait() {
    let clock = SettableClock { clock: clock(), back: Arc::default() };
    let limiter = limiter(&clock.clock, 1);
    let slow =
        SlowHost::new(OutgoingLayer::new(&limiter, "calls").unwrap().max_wait(seconds(55)).sleeper(clock.clone()));
    let first = slow.send().await;
    slow.host.notify_one();
    assert_eq!(first.await.unwrap().unwrap(), 429);
    let second = slow.send().await;
    clock.set_back(seconds(7));
    for _ in 0..2 {
        assert!(!second.is_finished());
        clock.clock.advance(seconds(8));
        let_tasks_run().await;
    }
    // 16 seconds have passed, though the clock says 9: its turn comes in 44, and it has 39.
    assert!(second.is_finished(), "it waits for longer than it may");
    assert!(matches!(second.await.unwrap(), Err(OutgoingError::Limited(_))));
}
