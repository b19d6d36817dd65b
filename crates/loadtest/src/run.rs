//! The configuration of a load test, and its run: opens the connections, sends requests, collects the report.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustls::RootCertStore;
use tidegate::api::BearerToken;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout};

use crate::client::{Client, RequestError};
use crate::keys::KeySequence;
use crate::schedule::StopSender;
use crate::tally::{Measurements, Tally};
use crate::target::Connector;
use crate::worker::{ServerLoad, run_connection};
use crate::{KeyDistribution, LoadError, Report, Target};

/// The maximum time for the last responses.
const LAST_RESPONSES_TIMEOUT: Duration = Duration::from_secs(5);
/// The interval of progress reports.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);
/// The number of connections that are opened at once. More would only queue up at the server.
const MAX_CONCURRENT_OPENS: usize = 64;

/// The configuration of a load test.
#[derive(Debug, Clone)]
pub struct LoadTest {
    /// The servers under test. Connections and requests are spread evenly over them.
    pub targets: Vec<Target>,
    /// Requests a second over all servers (open loop). With `None`, each connection sends its next request as soon as it
    /// has a response (closed loop).
    pub rate: Option<u32>,
    /// The time of sending.
    pub duration: Duration,
    /// Connections over all servers.
    pub connections: usize,
    /// The number of requests that the Redis protocol pipelines on a connection.
    pub pipeline: usize,
    /// The distribution of keys.
    pub keys: KeyDistribution,
    /// The number of keys.
    pub key_count: u64,
    /// The seed of the random choice of keys.
    pub seed: u64,
    /// The name of the limit. Defaults to `api` over HTTP, and to `CL.THROTTLE`, which needs none, over the Redis
    /// protocol.
    pub limit: Option<String>,
    /// The domain, for gRPC.
    pub domain: String,
    /// The key of the descriptor's one entry, for gRPC.
    pub descriptor: String,
    /// The cost of each request.
    pub cost: u32,
    /// The bearer token to present.
    pub token: Option<BearerToken>,
    /// The certificates that must sign those of servers with TLS.
    pub tls_roots: Option<Arc<RootCertStore>>,
}

/// The progress of a running test.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    /// The time since the first request.
    pub elapsed: Duration,
    /// Requests so far.
    pub requests: u64,
    /// The requests without a decision among them.
    pub errors: u64,
}

/// The common parts of all requests to one server.
#[derive(Clone)]
pub(crate) struct RequestTemplate {
    /// Host and port, for requests that name the server.
    pub(crate) authority: String,
    pub(crate) token: Option<BearerToken>,
    pub(crate) limit: Option<String>,
    pub(crate) domain: String,
    pub(crate) descriptor: String,
    pub(crate) cost: u32,
}

/// The measurements of a test that has ended.
pub(crate) struct Outcome {
    pub(crate) measurements: Measurements,
    pub(crate) interval_length: Duration,
    /// The time from the first request to the last response, or to the end of sending if that was later.
    pub(crate) took: Duration,
    /// The time of sending.
    pub(crate) sending: Duration,
    /// For each server, the requests that were due and not sent, because no connection was free.
    pub(crate) unsent: Vec<u64>,
}

impl LoadTest {
    /// Creates a test of 10 seconds over 50 connections, at full speed, with a million keys.
    pub fn new(targets: impl Into<Vec<Target>>) -> Self {
        LoadTest {
            targets: targets.into(),
            rate: None,
            duration: Duration::from_secs(10),
            connections: 50,
            pipeline: 1,
            keys: KeyDistribution::Uniform,
            key_count: 1_000_000,
            seed: 1,
            limit: None,
            domain: "envoy".to_owned(),
            descriptor: "remote_address".to_owned(),
            cost: 1,
            token: None,
            tls_roots: None,
        }
    }

    /// Puts the load on the servers.
    ///
    /// The test ends early when `interrupt` completes. It is awaited again while the last responses arrive.
    pub async fn run(&self, on_progress: impl Fn(Progress), interrupt: impl AsyncFn()) -> Result<Report, LoadError> {
        let test = Arc::new(self.clone());
        let connectors = self.connectors()?;
        let clients = self.open_clients(&connectors).await?;
        let started = Instant::now();
        let tally = Arc::new(Tally::new(self.targets.len(), started, self.duration));
        let (stopper, stop) = StopSender::new();
        let loads: Vec<_> = connectors
            .into_iter()
            .enumerate()
            .map(|(index, connector)| Arc::new(ServerLoad::new(index, &test, connector, &tally, &stopper, started)))
            .collect();
        let mut connections = JoinSet::new();
        for (index, client) in clients.into_iter().enumerate() {
            let load = Arc::clone(&loads[index % loads.len()]);
            connections.spawn(run_connection(load, client, self.key_sequence(index), stop.clone()));
        }

        tokio::select! {
            () = sleep_until(started + self.duration) => {}
            () = interrupt() => {}
            () = join_all(&mut connections) => {}
            () = report_progress(on_progress, &tally, started) => {}
        }
        stopper.stop();
        let ended = Instant::now().min(started + self.duration);
        tally.end(ended);
        // Bounded, because a server may never send the last responses.
        tokio::select! {
            _ = timeout(LAST_RESPONSES_TIMEOUT, join_all(&mut connections)) => {}
            () = interrupt() => {}
        }
        connections.shutdown().await;
        if let Some(reason) = stopper.abort_reason() {
            return Err(LoadError(reason));
        }

        let sent: Vec<_> = loads.iter().map(|load| load.sent.load(Ordering::Relaxed)).collect();
        let unsent = loads.iter().zip(&sent).map(|(load, sent)| load.schedule.unsent(ended, *sent)).collect();
        drop(loads);
        let tally = Arc::into_inner(tally).expect("every connection has ended");
        let (mut measurements, interval_length) = tally.finish();
        for (server, sent) in measurements.servers.iter_mut().zip(sent) {
            let missing = sent - server.requests();
            if missing > 0 {
                let message = "no answer until the end, nor soon after it".to_owned();
                server.record_failures(
                    &RequestError { kind: "no answer".to_owned(), message, is_transient: true },
                    missing,
                );
            }
        }
        let took = measurements.last_response.max(ended).saturating_duration_since(started);
        let sending = ended.saturating_duration_since(started);
        Ok(Report::new(self, Outcome { measurements, interval_length, took, sending, unsent }))
    }

    /// Returns the keys of a connection.
    pub(crate) fn key_sequence(&self, connection: usize) -> KeySequence {
        KeySequence::new(self.keys, self.key_count, self.seed, connection as u64)
    }

    pub(crate) fn template(&self, target: &Target) -> RequestTemplate {
        RequestTemplate {
            authority: target.authority(),
            token: self.token.clone(),
            limit: self.limit.clone(),
            domain: self.domain.clone(),
            descriptor: self.descriptor.clone(),
            cost: self.cost,
        }
    }

    /// Describes the test in words, for the head of the chart.
    pub(crate) fn describe(&self) -> String {
        let count = |number: u64, what: &str| format!("{number} {what}{}", if number == 1 { "" } else { "s" });
        let rate = self.rate.map_or("as fast as they are answered".to_owned(), |rate| format!("{rate} a second"));
        let pipeline = if self.pipeline > 1 { format!(", {} together", self.pipeline) } else { String::new() };
        let keys = match self.keys {
            KeyDistribution::One => "one key".to_owned(),
            KeyDistribution::Uniform => format!("{}, uniform", count(self.key_count, "key")),
            KeyDistribution::Zipf => format!("{}, zipf", count(self.key_count, "key")),
        };
        format!("{}{pipeline}, {rate}, {keys}", count(self.connections as u64, "connection"))
    }

    fn connectors(&self) -> Result<Vec<Connector>, LoadError> {
        self.targets.iter().map(|target| Connector::new(target, self.tls_roots.as_ref())).collect()
    }

    /// Opens all connections, evenly over the servers, before the time starts.
    async fn open_clients(&self, connectors: &[Connector]) -> Result<Vec<Client>, LoadError> {
        let mut opening = JoinSet::new();
        let mut opened = Vec::with_capacity(self.connections);
        let mut connections = 0..self.connections;
        loop {
            while opening.len() < MAX_CONCURRENT_OPENS
                && let Some(connection) = connections.next()
            {
                let server = connection % self.targets.len();
                let (target, connector) = (self.targets[server].clone(), connectors[server].clone());
                let template = self.template(&target);
                opening.spawn(async move {
                    let client = Client::open(&connector, target.protocol(), &template).await;
                    client.map(|client| (connection, client)).map_err(|why| format!("{target}: {why}"))
                });
            }
            let Some(joined) = opening.join_next().await else { break };
            match joined.map_err(|error| error.to_string()).and_then(|opened| opened) {
                Ok(client) => opened.push(client),
                Err(why) if opened.is_empty() => return Err(LoadError(why)),
                Err(why) => {
                    let (had, wanted) = (opened.len(), self.connections);
                    return Err(LoadError(format!(
                        "{why}\n({had} of {wanted} connections were open by then: if that is as many as there can be, ask \
                         for fewer with --connections)"
                    )));
                }
            }
        }
        // The index determines server and keys, so the order of arrival must not.
        opened.sort_by_key(|(connection, _)| *connection);
        Ok(opened.into_iter().map(|(_, client)| client).collect())
    }
}

async fn join_all(connections: &mut JoinSet<()>) {
    while connections.join_next().await.is_some() {}
}

/// Reports progress forever.
async fn report_progress(on_progress: impl Fn(Progress), tally: &Tally, started: Instant) {
    let mut ticks = interval(PROGRESS_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        ticks.tick().await;
        let (requests, errors) = tally.requests_and_errors();
        on_progress(Progress { elapsed: started.elapsed(), requests, errors });
    }
}
