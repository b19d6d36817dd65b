//! The servers that are compared, each as its users would write it.

use std::io::{BufRead, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Router;
use axum::extract::Request;
use axum::routing::get;
use rustix::time::{ClockId, clock_gettime};
use tidegate::http::{LimitHeaders, RateLimit};
use tidegate::tower::RateLimitLayer;
use tidegate::{MAX_COUNT, Quota, minutes, seconds};
use tower_governor::GovernorLayer;
use tower_governor::governor::GovernorConfigBuilder;
use tower_service::Service;

use crate::machine::pin;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Bare,
    Layered,
    Tidegate,
    TidegateSilent,
    TidegateDenied,
    Governor,
    GovernorHeaders,
    GovernorDenied,
}

impl Kind {
    /// The yardstick first.
    pub(super) const ALL: [Kind; 8] = [
        Kind::Bare,
        Kind::Layered,
        Kind::Tidegate,
        Kind::TidegateSilent,
        Kind::TidegateDenied,
        Kind::Governor,
        Kind::GovernorHeaders,
        Kind::GovernorDenied,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Bare => "bare axum",
            Kind::Layered => "axum with a layer that does nothing",
            Kind::Tidegate => "tidegate, as it comes (with headers)",
            Kind::TidegateSilent => "tidegate, without headers",
            Kind::TidegateDenied => "tidegate, denied",
            Kind::Governor => "tower_governor, as it comes (no headers)",
            Kind::GovernorHeaders => "tower_governor, with headers",
            Kind::GovernorDenied => "tower_governor, denied",
        }
    }

    /// What it answers to everybody but the first.
    pub(super) fn status(self) -> &'static str {
        match self {
            Kind::TidegateDenied | Kind::GovernorDenied => "429",
            _ => "200",
        }
    }

    fn router(self) -> Router {
        let router = Router::new().route("/", get(|| async { "ok" }));
        let plenty = || Quota::token_bucket(MAX_COUNT, seconds(1)).expect("a valid quota");
        match self {
            Kind::Bare => router,
            Kind::Layered => router.layer(tower_layer::layer_fn(Passing)),
            Kind::Tidegate => router.layer(RateLimitLayer::new(plenty())),
            Kind::TidegateSilent => {
                let silent = RateLimit::new(plenty()).headers(LimitHeaders::new([]));
                router.layer(RateLimitLayer::new(silent))
            }
            Kind::TidegateDenied => {
                let one = Quota::token_bucket(1, minutes(60)).expect("a valid quota");
                router.layer(RateLimitLayer::new(one))
            }
            Kind::Governor => {
                let plenty = GovernorConfigBuilder::default().per_nanosecond(1).burst_size(u32::MAX).finish();
                router.layer(GovernorLayer::new(Arc::new(plenty.expect("a valid quota"))))
            }
            Kind::GovernorHeaders => {
                let mut plenty = GovernorConfigBuilder::default();
                let plenty = plenty.per_nanosecond(1).burst_size(u32::MAX).use_headers().finish();
                router.layer(GovernorLayer::new(Arc::new(plenty.expect("a valid quota"))))
            }
            Kind::GovernorDenied => {
                let one = GovernorConfigBuilder::default().per_second(3_600).burst_size(1).finish();
                router.layer(GovernorLayer::new(Arc::new(one.expect("a valid quota"))))
            }
        }
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

/// Serves until its standard input ends: an address, and then for each line how much CPU time was used.
pub(crate) fn serve(name: &str) {
    let kind = Kind::ALL.into_iter().find(|kind| kind.name() == name).expect("a server");
    pin([0]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).expect("a free port");
    println!("{}", listener.local_addr().expect("bound"));
    std::thread::spawn(|| {
        for line in std::io::stdin().lock().lines() {
            line.expect("text");
            let used = clock_gettime(ClockId::ProcessCPUTime);
            println!("{}", used.tv_sec as f64 * 1e9 + used.tv_nsec as f64);
            std::io::stdout().flush().expect("somebody reads");
        }
        std::process::exit(0);
    });
    let service = kind.router().into_make_service_with_connect_info::<SocketAddr>();
    runtime.block_on(async { axum::serve(listener, service).await }).expect("served");
}
