//! The servers that are compared, each as its users would write it.

use std::convert::Infallible;
use std::io::{BufRead, Write};
use std::net::SocketAddr;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::HeaderName;
use axum::response::Response;
use axum::routing::get;
use axum::{Router, ServiceExt};
use governor::clock::QuantaInstant;
use governor::middleware::{NoOpMiddleware, RateLimitingMiddleware};
use rustix::time::{ClockId, clock_gettime};
use tidegate::enforce::{Action, Caller, Enforcer};
use tidegate::http::{LimitHeaders, RateLimit, keys};
use tidegate::tower::RateLimitLayer;
use tidegate::{Limiter, Quota, minutes, seconds};
use tokio::net::TcpListener;
use tower_governor::governor::GovernorConfigBuilder;
use tower_governor::key_extractor::{KeyExtractor, PeerIpKeyExtractor};
use tower_governor::{GovernorError, GovernorLayer};
use tower_layer::Layer;
use tower_service::Service;

use crate::machine::pin;
use crate::workload::{KEYS, text};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Bare,
    Layered,
    Tidegate,
    TidegateSilent,
    TidegateLong,
    TidegateDenied,
    Governor,
    GovernorHeaders,
    GovernorDenied,
    AroundTidegate,
    AroundTidegateSilent,
    AroundTidegateDenied,
    AroundGovernor,
    AroundGovernorHeaders,
    UsersTidegate,
    UsersTidegateSilent,
    UsersGovernor,
    UsersGovernorHeaders,
}

impl Kind {
    /// The yardstick first.
    pub(super) const ALL: [Kind; 18] = [
        Kind::Bare,
        Kind::Layered,
        Kind::Tidegate,
        Kind::TidegateSilent,
        Kind::TidegateLong,
        Kind::TidegateDenied,
        Kind::Governor,
        Kind::GovernorHeaders,
        Kind::GovernorDenied,
        Kind::AroundTidegate,
        Kind::AroundTidegateSilent,
        Kind::AroundTidegateDenied,
        Kind::AroundGovernor,
        Kind::AroundGovernorHeaders,
        Kind::UsersTidegate,
        Kind::UsersTidegateSilent,
        Kind::UsersGovernor,
        Kind::UsersGovernorHeaders,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Bare => "bare axum",
            Kind::Layered => "axum with a layer that does nothing",
            Kind::Tidegate => "tidegate, as it comes (with headers)",
            Kind::TidegateSilent => "tidegate, without headers",
            Kind::TidegateLong => "tidegate, a body as long as a denial's",
            Kind::TidegateDenied => "tidegate, denied",
            Kind::Governor => "tower_governor, as it comes (no headers)",
            Kind::GovernorHeaders => "tower_governor, with headers",
            Kind::GovernorDenied => "tower_governor, denied",
            Kind::AroundTidegate => "around the router: tidegate, with headers",
            Kind::AroundTidegateSilent => "around the router: tidegate, without headers",
            Kind::AroundTidegateDenied => "around the router: tidegate, denied",
            Kind::AroundGovernor => "around the router: tower_governor, no headers",
            Kind::AroundGovernorHeaders => "around the router: tower_governor, headers",
            Kind::UsersTidegate => "a million users: tidegate, as it comes",
            Kind::UsersTidegateSilent => "a million users: tidegate, no headers",
            Kind::UsersGovernor => "a million users: tower_governor, as it comes",
            Kind::UsersGovernorHeaders => "a million users: tower_governor, with headers",
        }
    }

    /// The answer to every client but the first.
    pub(super) fn status(self) -> &'static str {
        match self {
            Kind::TidegateDenied | Kind::AroundTidegateDenied | Kind::GovernorDenied => "429",
            _ => "200",
        }
    }

    /// Serves it on a port of its own.
    fn serve(self, listener: TcpListener) {
        let router = answering("ok");
        let plenty = || Quota::token_bucket(PLENTY.into(), seconds(1)).expect("a valid quota");
        let tidegate = || RateLimitLayer::new(plenty());
        let silent = || RateLimitLayer::new(RateLimit::new(plenty()).headers(LimitHeaders::new([])));
        let denying = || RateLimitLayer::new(one());
        match self {
            Kind::Bare => spawn(listener, router),
            Kind::Layered => spawn(listener, router.layer(tower_layer::layer_fn(Passing))),
            Kind::Tidegate => spawn(listener, router.layer(tidegate())),
            Kind::TidegateSilent => spawn(listener, router.layer(silent())),
            Kind::TidegateLong => spawn(listener, answering(as_long_as_a_denial()).layer(tidegate())),
            Kind::TidegateDenied => spawn(listener, router.layer(denying())),
            Kind::Governor => spawn(listener, router.layer(governor(governors_plenty()))),
            Kind::GovernorHeaders => spawn(listener, router.layer(governor(governors_plenty().use_headers()))),
            Kind::GovernorDenied => {
                let mut one = GovernorConfigBuilder::default();
                one.per_second(3_600).burst_size(1);
                spawn(listener, router.layer(governor(one)));
            }
            Kind::AroundTidegate => spawn(listener, tidegate().layer(router)),
            Kind::AroundTidegateSilent => spawn(listener, silent().layer(router)),
            Kind::AroundTidegateDenied => spawn(listener, denying().layer(router)),
            Kind::AroundGovernor => spawn(listener, governor(governors_plenty()).layer(router)),
            Kind::AroundGovernorHeaders => spawn(listener, governor(governors_plenty().use_headers()).layer(router)),
            Kind::UsersTidegate => spawn(listener, router.layer(RateLimitLayer::new(users()))),
            Kind::UsersTidegateSilent => {
                spawn(listener, router.layer(RateLimitLayer::new(users().headers(LimitHeaders::new([])))));
            }
            Kind::UsersGovernor => spawn(listener, router.layer(governors_users(governors_each()))),
            Kind::UsersGovernorHeaders => {
                spawn(listener, router.layer(governors_users(governors_each().use_headers())));
            }
        }
    }
}

/// With its state, as a router has it that is served as it is: otherwise axum makes the routes anew for every request.
fn answering(text: &'static str) -> Router {
    Router::new().route("/", get(move || async move { text })).with_state(())
}

/// Serves it to clients whose addresses it is told.
fn spawn<S>(listener: TcpListener, service: S)
where
    S: Service<Request, Response = Response, Error = Infallible, Future: Send> + Clone + Send + Sync + 'static,
{
    let service = ServiceExt::<Request>::into_make_service_with_connect_info::<SocketAddr>(service);
    tokio::spawn(async { axum::serve(listener, service).await });
}

fn governor<K, M>(mut config: GovernorConfigBuilder<K, M>) -> GovernorLayer<K, M, Body>
where
    K: KeyExtractor,
    M: RateLimitingMiddleware<QuantaInstant>,
{
    GovernorLayer::new(config.finish().expect("a valid quota"))
}

/// More than anybody asks for, in one second, and with no more digits than a large service's limit has: they are told.
const PLENTY: u32 = 1_000_000;

/// The same of the peer.
fn governors_plenty() -> GovernorConfigBuilder<PeerIpKeyExtractor, NoOpMiddleware<QuantaInstant>> {
    let mut plenty = GovernorConfigBuilder::default();
    plenty.per_nanosecond(1_000).burst_size(PLENTY);
    plenty
}

/// A text as long as the body of a denial.
fn as_long_as_a_denial() -> &'static str {
    let enforcer = Enforcer::from_quota(one());
    let ask = || enforcer.try_apply(&Caller::new("alice"), 1, Action::Limit).expect("in process");
    let _ = ask();
    RateLimit::new(enforcer.clone()).response(&ask()).into_body().leak()
}

/// One request, and none more for an hour.
fn one() -> Quota {
    Quota::token_bucket(1, minutes(60)).expect("a valid quota")
}

/// How much each of many users may use at once, and after what time there is one more: so seldom that nobody is forgotten
/// while it is measured, and often enough for everybody.
const BURST: u32 = 100;
const EVERY: Duration = Duration::from_secs(3_600);

/// A limit for each user, every one of whom has been there.
fn users() -> RateLimit {
    let quota = Quota::token_bucket(u64::from(BURST), EVERY * BURST).expect("a valid quota");
    let limiter = Limiter::builder().limit("api", quota).build().expect("a valid limit");
    for user in 0..KEYS {
        let _ = limiter.limit("api", &*text(user)).try_now().expect("the limit is there");
    }
    RateLimit::new(limiter.enforcer("api").unwrap()).key(keys::header(USER))
}

/// The same of the peer.
fn governors_each() -> GovernorConfigBuilder<User, NoOpMiddleware<QuantaInstant>> {
    let mut each = GovernorConfigBuilder::default().key_extractor(User);
    each.period(EVERY).burst_size(BURST);
    each
}

/// And every one of them has been there.
fn governors_users<M>(mut config: GovernorConfigBuilder<User, M>) -> GovernorLayer<User, M, Body>
where
    M: RateLimitingMiddleware<QuantaInstant>,
{
    let config = config.finish().expect("a valid quota");
    for user in 0..KEYS {
        assert!(config.limiter().check_key(&text(user)).is_ok());
    }
    GovernorLayer::new(config)
}

const USER: HeaderName = HeaderName::from_static("x-user");

/// The user as the peer's documentation has it, as text.
#[derive(Clone, Debug)]
struct User;

impl KeyExtractor for User {
    type Key = String;

    fn extract<T>(&self, request: &axum::http::Request<T>) -> Result<String, GovernorError> {
        let user = request.headers().get(USER).and_then(|user| user.to_str().ok());
        user.map(str::to_owned).ok_or(GovernorError::UnableToExtractKey)
    }
}

/// Hands everything on: what a layer costs before it does anything.
#[derive(Clone)]
struct Passing<S>(S);

impl<S: Service<Request>> Service<Request> for Passing<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request) -> S::Future {
        self.0.call(request)
    }
}

/// Serves all kinds until its standard input ends, each under an address of its own: these, in a line, and then for each
/// line how much CPU time was used. Another one is made first in each start, because that may decide where its memory is.
pub(crate) fn serve(start: &str) {
    let first = start.parse::<usize>().expect("a number") % Kind::ALL.len();
    pin([0]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let serve = |kind: Kind| {
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a free port");
        let address = listener.local_addr().expect("bound").to_string();
        let _inside = runtime.enter();
        kind.serve(listener);
        address
    };
    let mut kinds = Kind::ALL;
    kinds.rotate_left(first);
    let mut addresses = kinds.map(serve);
    addresses.rotate_right(first);
    println!("{}", addresses.join(" "));
    std::thread::spawn(|| {
        for line in std::io::stdin().lock().lines() {
            line.expect("text");
            let used = clock_gettime(ClockId::ProcessCPUTime);
            println!("{}", used.tv_sec as f64 * 1e9 + used.tv_nsec as f64);
            std::io::stdout().flush().expect("standard output is open");
        }
        std::process::exit(0);
    });
    runtime.block_on(std::future::pending())
}
