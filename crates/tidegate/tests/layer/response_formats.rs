//! Custom response formats, which write denials and headers.

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Method, Response};
use tidegate::Limiter;
use tidegate::enforce::Outcome;
use tidegate::http::{LimitHeaders, RateLimit};
use tidegate::tower::{HttpFormat, RateLimitLayer, ResponseFormat};

use crate::clients::{self, Reply};
use crate::support::{Server, limiter, waiting_limiter, window};

#[derive(Clone)]
struct HeaderlessFormat;

impl ResponseFormat<Body> for HeaderlessFormat {
    fn denial(&self, _: &RateLimit, outcome: &Outcome, _: &Method) -> Response<Body> {
        denial_response(outcome)
    }

    fn write_headers(&self, _: &RateLimit, _: &Outcome, _: &mut HeaderMap) {}
}

#[derive(Clone)]
struct PolicyHeadersFormat;

impl ResponseFormat<Body> for PolicyHeadersFormat {
    fn denial(&self, _: &RateLimit, outcome: &Outcome, _: &Method) -> Response<Body> {
        denial_response(outcome)
    }

    fn write_headers(&self, rate_limit: &RateLimit, outcome: &Outcome, headers: &mut HeaderMap) {
        rate_limit.write_headers(outcome, headers);
    }
}

#[derive(Clone)]
struct CustomHeaderFormat;

impl ResponseFormat<Body> for CustomHeaderFormat {
    fn denial(&self, _: &RateLimit, outcome: &Outcome, _: &Method) -> Response<Body> {
        denial_response(outcome)
    }

    fn write_headers(&self, _: &RateLimit, outcome: &Outcome, headers: &mut HeaderMap) {
        let left = outcome.limit_decisions()[0].decision().remaining();
        headers.insert("x-left", left.into());
    }
}

fn denial_response(outcome: &Outcome) -> Response<Body> {
    let wait = outcome.retry_after().expect("it comes back");
    Response::builder().status(420).body(format!("calm down for {}s", wait.as_secs()).into()).unwrap()
}

/// Returns the replies to `requests` requests.
async fn replies<P>(rate_limit: &RateLimit, format: P, requests: usize) -> Vec<Reply>
where
    P: ResponseFormat<Body> + Send + Sync + 'static,
{
    let layer = RateLimitLayer::new(rate_limit.clone()).with_format(format);
    let server = Server::router(Router::new().fallback(|| async { "ok" }).layer(layer)).await;
    let mut replies = Vec::new();
    for _ in 0..requests {
        replies.push(clients::get(server.address).await);
    }
    replies
}

/// Runs a format on an immediate and a waiting store, with headers and without, charging at once and afterwards. A layer
/// with the same settings and the usual format answers first. `check` gets the replies of both.
async fn check_every_setup<P>(format: P, check: impl Fn(bool, &Reply, &Reply))
where
    P: ResponseFormat<Body> + Send + Sync + 'static,
{
    for make in [limiter as fn(_) -> Limiter, waiting_limiter] {
        for (with_headers, afterwards) in [(true, false), (false, false), (true, true), (false, true)] {
            let rate_limit = RateLimit::new(make(window(2)).enforcer("api").unwrap());
            let rate_limit = if with_headers { rate_limit } else { rate_limit.headers(LimitHeaders::new([])) };
            let rate_limit = if afterwards { rate_limit.charge_when(|_, _| true) } else { rate_limit };
            let usual = replies(&rate_limit, HttpFormat, 1).await;
            let [admitted, denied] = &replies(&rate_limit, format.clone(), 2).await[..] else { panic!("two") };
            assert_eq!((admitted.status, &*admitted.body), (200, "ok"));
            check(with_headers, &usual[0], admitted);
            assert_eq!((denied.status, &*denied.body), (420, "calm down for 60s"));
        }
    }
}

#[tokio::test]
async fn format_without_headers_writes_none() {
    check_every_setup(HeaderlessFormat, |_, _, admitted| assert_eq!(admitted.limit_headers(), [""; 0])).await;
}

#[tokio::test]
async fn format_can_write_the_headers_of_the_policy() {
    check_every_setup(PolicyHeadersFormat, |_, usual, admitted| {
        let one_less: Vec<_> = usual.limit_headers().iter().map(|line| line.replace(";r=1;", ";r=0;")).collect();
        assert_eq!(admitted.limit_headers(), one_less);
    })
    .await;
}

#[tokio::test]
async fn format_can_write_custom_headers() {
    check_every_setup(CustomHeaderFormat, |_, _, admitted| {
        assert_eq!(admitted.limit_headers(), [""; 0]);
        assert_eq!(admitted.headers("x-left"), ["0"]);
    })
    .await;
}
