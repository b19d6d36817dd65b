//! `tidegate serve`: opens the store and the ports, and serves until a signal ends it.

use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};
use tracing::{info, warn};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, fmt};

use crate::app::App;
use crate::app::config::ActiveConfig;
use crate::app::reload::{self, Signals};
use crate::app::stats::recorder;
use crate::app::store::AppStore;
use crate::cli::{Listen, LogFormat, Serve, read_token};
use crate::doors::otlp::{Telemetry, TraceLayer};
use crate::doors::{Access, AllowedHosts, grpc, http, resp};
use crate::net::buffer_budget::BufferBudget;
use crate::net::http_server;
use crate::net::listener::{Listener, Listeners};
use crate::net::shutdown::ShutdownTrigger;
use crate::runtime::Runtimes;
use crate::store_url::StoreUrl;
use crate::{Failure, print_message};

/// The time for which HTTP and gRPC are still served after the end signal. Clients with successive requests learn
/// meanwhile that their connection closes. A balancer notices that the server is not ready.
const LINGER: Duration = Duration::from_millis(500);

pub(crate) fn run(serve: &Serve) -> Result<(), Failure> {
    let store_url = serve.store_url()?;
    serve.check(&store_url)?;
    let runtimes = Runtimes::start(serve.threads, serve.grpc != Listen::Off)
        .map_err(|error| Failure::Start(format!("no threads to run on: {error}")))?;
    let result = runtimes.main.block_on(async {
        let telemetry = Telemetry::start(serve)?;
        start_logging(serve.log, telemetry.trace_layer());
        serve_until_signal(serve, &store_url, telemetry, &runtimes).await
    });
    runtimes.shutdown();
    result
}

async fn serve_until_signal(
    serve: &Serve,
    store_url: &StoreUrl,
    telemetry: Telemetry,
    runtimes: &Runtimes,
) -> Result<(), Failure> {
    // Before a store is made, which describes its metrics to the recorder.
    recorder::handle();
    let config = ActiveConfig::load(serve.config.as_deref())?;
    let token = read_token(serve.token_file.as_deref())?;
    let store = AppStore::open(serve, store_url, config.config.defaults()).await?;
    let app = App::new(store, config, serve.testing).map_err(|error| Failure::Start(error.to_string()))?;
    let app = app.with_stats(|stats| stats.hide_keys(serve.hide_keys).log_keys(serve.log_keys));
    let buffers = BufferBudget::new(usize::try_from(serve.max_buffered_bytes).unwrap_or(usize::MAX));
    let app = Arc::new(app.with_buffers(Arc::clone(&buffers)));
    let listeners = Listeners::open(serve, token.is_some(), runtimes.grpc(), &buffers).await?;
    let mut signals = Signals::new()?;
    telemetry.observe(&app);
    announce(serve, store_url, &app, &listeners, token.is_some());

    // Two steps: `shutdown` makes the server not ready, and after LINGER `last` closes HTTP and gRPC connections.
    let (shutdown_trigger, shutdown) = ShutdownTrigger::new();
    let (last_trigger, last) = ShutdownTrigger::new();
    let access = Access::new(token.clone());
    // Browsers speak no gRPC without TLS: its port needs no check. Over TLS, the name is on the certificate.
    let http_access = match token.is_none() && serve.tls_cert.is_none() {
        true => access.clone().with_hosts(AllowedHosts::new(&serve.allowed_hosts)),
        false => access.clone(),
    };
    let mut serving = JoinSet::new();
    serving.spawn_on(Arc::clone(&app).tick(shutdown.clone()), runtimes.background());
    if let Some(listener) = listeners.http {
        let router = telemetry.instrument(http::router(Arc::clone(&app), http_access.clone(), runtimes.background()));
        let fast_path = http::DecisionFastPath { app: Arc::clone(&app), access: http_access };
        // Telemetry is part of the router.
        let fast_path = (!telemetry.is_on()).then_some(fast_path);
        serving.spawn(http_server::serve(listener, fast_path, router, app.draining_flag(), last.clone()));
    }
    if let Some(listener) = listeners.grpc {
        let router = grpc::router(Arc::clone(&app), access.clone(), shutdown.clone(), last.clone()).await;
        let fast_path = grpc::RateLimitFastPath { app: Arc::clone(&app), access };
        let (fast_path, router) = ((!telemetry.is_on()).then_some(fast_path), telemetry.instrument(router));
        serving.spawn_on(http_server::serve(listener, fast_path, router, app.draining_flag(), last), runtimes.grpc());
    }
    if let Some(listener) = listeners.resp {
        serving.spawn(resp::serve(listener, Arc::clone(&app), token, shutdown));
    }
    reload::wait_for_end_signal(&mut signals, serve.config.as_deref(), &app).await;

    info!(grace = ?serve.grace, "ending: what is under way is finished first");
    app.drain();
    shutdown_trigger.trigger();
    let deadline = Instant::now() + serve.grace;
    let finished = timeout_at(deadline, async {
        tokio::time::sleep(LINGER.min(serve.grace / 2)).await;
        last_trigger.trigger();
        while serving.join_next().await.is_some() {}
    });
    // A second signal skips the grace period.
    let (given_up, deadline) = tokio::select! {
        finished = finished => (finished.err().map(|_| "not everything was finished within the grace period"), deadline),
        () = signals.end.recv_again() => (Some("a second signal: what is still under way is given up"), Instant::now()),
    };
    if let Some(why) = given_up {
        warn!("{why}");
        serving.shutdown().await;
    }
    // Before the snapshot, so that no decision is missing from it. The memory store keeps its state when it is closed.
    app.close().await;
    let saved = serve.snapshot.as_deref().map(|path| (path, app.store.save_snapshot(path)));
    tokio::select! {
        () = telemetry.shutdown(deadline.saturating_duration_since(Instant::now())) => {}
        () = signals.end.recv() => {}
    }
    match saved {
        None => Ok(()),
        Some((path, Ok(keys))) => {
            info!(file = %path.display(), keys, "the snapshot is saved");
            Ok(())
        }
        Some((path, Err(error))) => {
            Err(Failure::Start(format!("{}: the snapshot cannot be written: {error}", path.display())))
        }
    }
}

/// Logs the addresses of the ports, and prints examples for the demonstration.
fn announce(serve: &Serve, store_url: &StoreUrl, app: &App, listeners: &Listeners, has_token: bool) {
    let address = |listener: &Option<Listener>| {
        let address = listener.as_ref().and_then(|listener| listener.socket.local_addr().ok());
        address.map_or_else(|| "off".to_owned(), |address| address.to_string())
    };
    let limits = app.config.load().limit_count;
    info!(
        http = address(&listeners.http),
        grpc = address(&listeners.grpc),
        resp = address(&listeners.resp),
        store = %store_url,
        limits,
        "serving"
    );
    // The examples need ports without TLS and token.
    let is_plain = serve.tls_cert.is_none() && !has_token;
    if let (Some(_), Some(_), true) = (&listeners.http, &listeners.resp, is_plain)
        && app.config.load().is_demo
        && serve.log == LogFormat::Human
    {
        print_message(&format!(
            "\nThis is the built-in demonstration. Look at http://{0}/ in a browser, and try:\n  \
             curl -d '{{\"limit\":\"login\",\"key\":\"ann\"}}' http://{0}/v1/limit     five a minute for each name\n  \
             curl -i http://{0}/api/protected                            two a second for each client\n  \
             redis-cli -p {1} CL.THROTTLE user123 15 30 60               as redis-cell does\n\
             Ctrl-C ends it. `tidegate serve --help` says how to serve limits of your own.\n",
            address(&listeners.http),
            address(&listeners.resp).rsplit(':').next().unwrap_or_default(),
        ));
    }
}

/// The default filter of the log. It silences h2 and rustls, because any client could make them warn with every few bytes.
const DEFAULT_FILTER: &str = "info,h2=off,rustls=off";

/// Starts logging to standard error, with the filter in `RUST_LOG`. Defaults to `info`.
fn start_logging(format: LogFormat, traces: Option<TraceLayer>) {
    let chosen = std::env::var(EnvFilter::DEFAULT_ENV).ok().filter(|chosen| !chosen.is_empty());
    let filter = EnvFilter::builder().with_default_directive(tracing::Level::INFO.into());
    let filter = filter.parse_lossy(chosen.as_deref().unwrap_or(DEFAULT_FILTER));
    let lines = fmt::layer().with_writer(io::stderr).with_target(false).with_ansi(io::stderr().is_terminal());
    let registry = tracing_subscriber::registry().with(traces);
    // In a test another subscriber may be installed already.
    let _ = match format {
        LogFormat::Human => registry.with(lines.with_filter(filter)).try_init(),
        LogFormat::Json => registry.with(lines.json().flatten_event(true).with_filter(filter)).try_init(),
    };
}
