//! The servers of the HTTP benchmark, each written as its users would write it.

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
use crate::workload::{KEYS, key_text};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServerKind {
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

impl ServerKind {
    /// All servers, the baseline first.
    pub(super) const ALL: [ServerKind; 18] = [
        ServerKind::Bare,
        ServerKind::Layered,
        ServerKind::Tidegate,
        ServerKind::TidegateSilent,
        ServerKind::TidegateLong,
        ServerKind::TidegateDenied,
        ServerKind::Governor,
        ServerKind::GovernorHeaders,
        ServerKind::GovernorDenied,
        ServerKind::AroundTidegate,
        ServerKind::AroundTidegateSilent,
        ServerKind::AroundTidegateDenied,
        ServerKind::AroundGovernor,
        ServerKind::AroundGovernorHeaders,
        ServerKind::UsersTidegate,
        ServerKind::UsersTidegateSilent,
        ServerKind::UsersGovernor,
        ServerKind::UsersGovernorHeaders,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            ServerKind::Bare => "bare axum",
            ServerKind::Layered => "axum with a layer that does nothing",
            ServerKind::Tidegate => "tidegate, defaults (with headers)",
            ServerKind::TidegateSilent => "tidegate, without headers",
            ServerKind::TidegateLong => "tidegate, a body as long as a denial's",
            ServerKind::TidegateDenied => "tidegate, denied",
            ServerKind::Governor => "tower_governor, defaults (no headers)",
            ServerKind::GovernorHeaders => "tower_governor, with headers",
            ServerKind::GovernorDenied => "tower_governor, denied",
            ServerKind::AroundTidegate => "around the router: tidegate, with headers",
            ServerKind::AroundTidegateSilent => "around the router: tidegate, without headers",
            ServerKind::AroundTidegateDenied => "around the router: tidegate, denied",
            ServerKind::AroundGovernor => "around the router: tower_governor, no headers",
            ServerKind::AroundGovernorHeaders => "around the router: tower_governor, headers",
            ServerKind::UsersTidegate => "a million users: tidegate, defaults",
            ServerKind::UsersTidegateSilent => "a million users: tidegate, no headers",
            ServerKind::UsersGovernor => "a million users: tower_governor, defaults",
            ServerKind::UsersGovernorHeaders => "a million users: tower_governor, with headers",
        }
    }

    /// Returns the status for every client except the first.
    pub(super) fn status(self) -> &'static str {
        match self {
            ServerKind::TidegateDenied | ServerKind::AroundTidegateDenied | ServerKind::GovernorDenied => "429",
            _ => "200",
        }
    }

    /// Serves this kind on a port of its own.
    fn serve(self, listener: TcpListener) {
        let router = router_with_body("ok");
        let large_quota = || Quota::token_bucket(LARGE_QUOTA.into(), seconds(1)).expect("a valid quota");
        let tidegate = || RateLimitLayer::new(large_quota());
        let silent = || RateLimitLayer::new(RateLimit::new(large_quota()).headers(LimitHeaders::new([])));
        let denying = || RateLimitLayer::new(quota_of_one());
        match self {
            ServerKind::Bare => spawn(listener, router),
            ServerKind::Layered => spawn(listener, router.layer(tower_layer::layer_fn(PassThroughService))),
            ServerKind::Tidegate => spawn(listener, router.layer(tidegate())),
            ServerKind::TidegateSilent => spawn(listener, router.layer(silent())),
            ServerKind::TidegateLong => spawn(listener, router_with_body(body_as_long_as_a_denial()).layer(tidegate())),
            ServerKind::TidegateDenied => spawn(listener, router.layer(denying())),
            ServerKind::Governor => spawn(listener, router.layer(governor(governor_large_quota()))),
            ServerKind::GovernorHeaders => {
                spawn(listener, router.layer(governor(governor_large_quota().use_headers())))
            }
            ServerKind::GovernorDenied => {
                let mut one = GovernorConfigBuilder::default();
                one.per_second(3_600).burst_size(1);
                spawn(listener, router.layer(governor(one)));
            }
            ServerKind::AroundTidegate => spawn(listener, tidegate().layer(router)),
            ServerKind::AroundTidegateSilent => spawn(listener, silent().layer(router)),
            ServerKind::AroundTidegateDenied => spawn(listener, denying().layer(router)),
            ServerKind::AroundGovernor => spawn(listener, governor(governor_large_quota()).layer(router)),
            ServerKind::AroundGovernorHeaders => {
                spawn(listener, governor(governor_large_quota().use_headers()).layer(router))
            }
            ServerKind::UsersTidegate => spawn(listener, router.layer(RateLimitLayer::new(users()))),
            ServerKind::UsersTidegateSilent => {
                spawn(listener, router.layer(RateLimitLayer::new(users().headers(LimitHeaders::new([])))));
            }
            ServerKind::UsersGovernor => spawn(listener, router.layer(governor_of_users(governor_per_user()))),
            ServerKind::UsersGovernorHeaders => {
                spawn(listener, router.layer(governor_of_users(governor_per_user().use_headers())));
            }
        }
    }
}

/// Returns a router with its state, as a served router has it. Otherwise axum builds the routes again for every
/// request.
fn router_with_body(text: &'static str) -> Router {
    Router::new().route("/", get(move || async move { text })).with_state(())
}

/// Serves a service with the peer addresses of its clients.
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

/// A quota beyond any request count, for one second. It has no more digits than the limit of a large service, because
/// the headers have it.
const LARGE_QUOTA: u32 = 1_000_000;

/// Returns that quota for governor.
fn governor_large_quota() -> GovernorConfigBuilder<PeerIpKeyExtractor, NoOpMiddleware<QuantaInstant>> {
    let mut large_quota = GovernorConfigBuilder::default();
    large_quota.per_nanosecond(1_000).burst_size(LARGE_QUOTA);
    large_quota
}

/// Returns a text as long as the body of a denial.
fn body_as_long_as_a_denial() -> &'static str {
    let enforcer = Enforcer::from_quota(quota_of_one());
    let ask = || enforcer.try_apply(&Caller::new("alice"), 1, Action::Limit).expect("in process");
    let _ = ask();
    RateLimit::new(enforcer.clone()).response(&ask()).into_body().leak()
}

/// Returns a quota of one request an hour.
fn quota_of_one() -> Quota {
    Quota::token_bucket(1, minutes(60)).expect("a valid quota")
}

/// The burst of each of many users, and the time in which one more is refilled. It is so slow that no user is forgotten
/// during the measurement, and enough for all.
const BURST: u32 = 100;
const EVERY: Duration = Duration::from_secs(3_600);

/// Returns a limit for each user, with every user already known.
fn users() -> RateLimit {
    let quota = Quota::token_bucket(u64::from(BURST), EVERY * BURST).expect("a valid quota");
    let limiter = Limiter::builder().limit("api", quota).build().expect("a valid limit");
    for user in 0..KEYS {
        let _ = limiter.limit("api", &*key_text(user)).try_now().expect("the limit is there");
    }
    RateLimit::new(limiter.enforcer("api").unwrap()).key(keys::header(USER))
}

/// Returns that limit for governor.
fn governor_per_user() -> GovernorConfigBuilder<User, NoOpMiddleware<QuantaInstant>> {
    let mut each = GovernorConfigBuilder::default().key_extractor(User);
    each.period(EVERY).burst_size(BURST);
    each
}

/// Returns governor's layer with every user already known.
fn governor_of_users<M>(mut config: GovernorConfigBuilder<User, M>) -> GovernorLayer<User, M, Body>
where
    M: RateLimitingMiddleware<QuantaInstant>,
{
    let config = config.finish().expect("a valid quota");
    for user in 0..KEYS {
        assert!(config.limiter().check_key(&key_text(user)).is_ok());
    }
    GovernorLayer::new(config)
}

const USER: HeaderName = HeaderName::from_static("x-user");

/// The key extractor for users as in governor's documentation, as text.
#[derive(Clone, Debug)]
struct User;

impl KeyExtractor for User {
    type Key = String;

    fn extract<T>(&self, request: &axum::http::Request<T>) -> Result<String, GovernorError> {
        let user = request.headers().get(USER).and_then(|user| user.to_str().ok());
        user.map(str::to_owned).ok_or(GovernorError::UnableToExtractKey)
    }
}

/// A service that passes everything on: the cost of a layer that does nothing.
#[derive(Clone)]
struct PassThroughService<S>(S);

impl<S: Service<Request>> Service<Request> for PassThroughService<S> {
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

/// Serves all kinds until its standard input ends, each on a port of its own. Prints the addresses in a line, and then
/// the CPU time for each line of input. Each start creates another kind first, because the order can decide the place
/// in memory.
pub(crate) fn serve(start: &str) {
    let first = start.parse::<usize>().expect("a number") % ServerKind::ALL.len();
    pin([0]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let serve = |kind: ServerKind| {
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a free port");
        let address = listener.local_addr().expect("bound").to_string();
        let _inside = runtime.enter();
        kind.serve(listener);
        address
    };
    let mut kinds = ServerKind::ALL;
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
