//! `tidegate serve`: the limits, for whoever asks.

mod answer;
mod auth;
mod connection;
pub(crate) mod envoy;
pub(crate) mod gate;
mod grpc;
mod heads;
mod http;
mod in_place;
mod listen;
mod log;
#[cfg(feature = "otlp")]
mod otlp;
mod patient;
mod port;
mod reload;
mod requests;
mod resp;
mod sending;
mod served;
mod shutdown;
mod snapshot;
mod store;
mod telemetry;
mod tls;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};
use tracing::{info, warn};

pub(crate) use auth::{Token, find_token};
use gate::Gate;
use listen::Ports;
pub(crate) use served::Served;
use shutdown::Ending;
use store::Backing;
use telemetry::Telemetry;
pub(crate) use tls::trusted;

use crate::cli::{Listen, LogFormat, Serve};
use crate::failure::Failure;
use crate::say;
use crate::threads::Threads;

/// How long HTTP and gRPC are still answered once it ends: long enough for a client in the middle of its requests to hear that its
/// connection is to be closed, and for a balancer to see that nobody new should be sent here.
const LINGER: Duration = Duration::from_millis(500);

pub(crate) fn run(serve: &Serve) -> Result<(), Failure> {
    serve.check()?;
    let threads = Threads::start(serve.threads, serve.grpc != Listen::Off)
        .map_err(|error| Failure::Start(format!("no threads to run on: {error}")))?;
    let ended = threads.usual.block_on(async {
        let telemetry = Telemetry::start(serve)?;
        log::start(serve.log, telemetry.layer());
        until_the_end(serve, telemetry, threads.grpc()).await
    });
    threads.end();
    ended
}

async fn until_the_end(serve: &Serve, telemetry: Telemetry, for_grpc: &Handle) -> Result<(), Failure> {
    // Before a store is made, which tells the recorder what its metrics mean.
    watch::recorder::handle();
    let served = Served::load(serve.config.as_deref())?;
    let token = find_token(serve.token_file.as_deref())?;
    let backing = Backing::open(serve, served.config.defaults()).await?;
    let gate = Gate::new(backing, served, serve.testing).map_err(|error| Failure::Start(error.to_string()))?;
    let gate = Arc::new(gate.watching(|watch| watch.hide_keys(serve.hide_keys).log_keys(serve.log_keys)));
    let ports = Ports::open(serve, token.as_ref(), for_grpc).await?;
    let mut signals = reload::Signals::new()?;
    telemetry.observe(&gate);
    announce(serve, &gate, &ports, token.as_ref());

    let (ending, shutdown) = Ending::new();
    let (ending_last, last) = Ending::new();
    let mut serving = JoinSet::new();
    serving.spawn(watch::tick(Arc::clone(&gate), shutdown.clone()));
    if let Some(port) = ports.http {
        let router = telemetry.around(http::router(Arc::clone(&gate), token.clone()));
        let decisions = http::Decisions { gate: Arc::clone(&gate), token: token.clone() };
        let at_once = (!telemetry.is_on()).then_some(decisions);
        serving.spawn(requests::serve(port, at_once, router, Arc::clone(&gate), last.clone()));
    }
    if let Some(port) = ports.grpc {
        let router = grpc::router(Arc::clone(&gate), token.clone(), shutdown.clone(), last.clone()).await;
        let calls = grpc::Calls { gate: Arc::clone(&gate), token: token.clone() };
        let (at_once, router) = ((!telemetry.is_on()).then_some(calls), telemetry.around(router));
        serving.spawn_on(requests::serve(port, at_once, router, Arc::clone(&gate), last), for_grpc);
    }
    if let Some(port) = ports.resp {
        serving.spawn(resp::serve(port, Arc::clone(&gate), token, shutdown));
    }
    reload::until_told_to_end(&mut signals, serve.config.as_deref(), &gate).await;

    info!(grace = ?serve.grace, "ending: what is under way is finished first");
    gate.drain();
    ending.begin();
    let deadline = Instant::now() + serve.grace;
    let finished = timeout_at(deadline, async {
        tokio::time::sleep(LINGER.min(serve.grace / 2)).await;
        ending_last.begin();
        while serving.join_next().await.is_some() {}
    });
    // Who says so once more does not want to wait.
    let (given_up, deadline) = tokio::select! {
        finished = finished => (finished.err().map(|_| "not everything was finished within the grace period"), deadline),
        () = signals.end.told_again() => (Some("a second signal: what is still under way is given up"), Instant::now()),
    };
    if let Some(why) = given_up {
        warn!("{why}");
        serving.shutdown().await;
    }
    // First, so that nobody who is still there decides past the snapshot. What memory holds stays.
    gate.close().await;
    let saved = serve.snapshot.as_deref().map(|path| (path, gate.backing.save(path)));
    tokio::select! {
        () = telemetry.end(deadline.saturating_duration_since(Instant::now())) => {}
        () = signals.end.told() => {}
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

/// Says where everything is.
fn announce(serve: &Serve, gate: &Gate, ports: &Ports, token: Option<&Token>) {
    let address = |port: &Option<port::Port>| {
        let address = port.as_ref().and_then(|port| port.listener.local_addr().ok());
        address.map_or_else(|| "off".to_owned(), |address| address.to_string())
    };
    let limits = gate.served.load().count;
    info!(
        http = address(&ports.http),
        grpc = address(&ports.grpc),
        resp = address(&ports.resp),
        store = %serve.store,
        limits,
        "serving"
    );
    // The lines to try are for the ports as they come.
    let plain = serve.tls_cert.is_none() && token.is_none();
    if let (Some(_), Some(_), true) = (&ports.http, &ports.resp, plain)
        && gate.served.load().is_demo
        && serve.log == LogFormat::Human
    {
        say(&format!(
            "\nThis is the built-in demonstration. Look at http://{0}/ in a browser, and try:\n  \
             curl -d '{{\"limit\":\"login\",\"key\":\"ann\"}}' http://{0}/v1/limit     five a minute for each name\n  \
             curl -i http://{0}/api/protected                            two a second for each client\n  \
             redis-cli -p {1} CL.THROTTLE user123 15 30 60               as redis-cell does\n\
             Ctrl-C ends it. `tidegate serve --help` says how to serve limits of your own.\n",
            address(&ports.http),
            address(&ports.resp).rsplit(':').next().unwrap_or_default(),
        ));
    }
}
