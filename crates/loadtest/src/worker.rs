//! The loop of one connection: wait until a request is due, send it, count the response, reconnect.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::LoadTest;
use crate::client::{Client, ConnectionLost, RequestError, Responses, Verdict};
use crate::keys::KeySequence;
use crate::schedule::{RateShare, Schedule, StopSender, StopSignal};
use crate::tally::Tally;
use crate::target::{Connector, Protocol, Target};

/// The pause before a lost connection is opened again.
const RECONNECT_DELAY: Duration = Duration::from_millis(100);

/// The shared state of the connections to one server.
pub(crate) struct ServerLoad {
    /// The index of the server.
    index: usize,
    test: Arc<LoadTest>,
    connector: Connector,
    pub(crate) schedule: Schedule,
    /// The number of sent requests. Those that are not in the tally are in flight.
    pub(crate) sent: AtomicU64,
    tally: Arc<Tally>,
    stopper: StopSender,
}

/// Sends requests over one connection until the test ends. A lost connection is opened again.
pub(crate) async fn run_connection(load: Arc<ServerLoad>, client: Client, mut keys: KeySequence, mut stop: StopSignal) {
    let pipeline = if load.target().protocol() == Protocol::Resp { load.test.pipeline } else { 1 };
    let mut client = Some(client);
    let (mut requested, mut since) = (Vec::with_capacity(pipeline), Vec::with_capacity(pipeline));
    let mut responses = Responses::with_capacity(pipeline);
    while let Some(first) = load.schedule.next_due(&mut stop).await {
        since.clear();
        since.push(first);
        while since.len() < pipeline
            && let Some(another) = load.schedule.try_next_due()
        {
            since.push(another);
        }
        requested.clear();
        requested.resize_with(since.len(), || keys.next());
        load.sent.fetch_add(requested.len() as u64, Ordering::Relaxed);

        let lost = match &mut client {
            Some(client) => client.send(&requested, &mut responses).await.err(),
            None => match load.open().await {
                Ok(opened) => client.insert(opened).send(&requested, &mut responses).await.err(),
                Err(lost) => Some(lost),
            },
        };
        if !load.is_worthwhile(&responses, lost.as_ref()) {
            return;
        }
        let reopen = lost.is_some();
        if let Some(ConnectionLost(message)) = lost {
            let error = RequestError { kind: "connection lost".to_owned(), message, is_transient: true };
            let now = Instant::now();
            responses.resize_with(requested.len(), || (Verdict::Failed(Box::new(error.clone())), now));
            client = None;
        }
        let timed = responses.drain(..).zip(&since).map(|((verdict, now), since)| (verdict, *since, now));
        load.tally.count(load.index, timed);
        if reopen {
            tokio::select! {
                () = sleep(RECONNECT_DELAY) => {}
                () = stop.stopped() => return,
            }
        }
    }
}

impl ServerLoad {
    pub(crate) fn new(
        index: usize,
        test: &Arc<LoadTest>,
        connector: Connector,
        tally: &Arc<Tally>,
        stopper: &StopSender,
        started: Instant,
    ) -> Self {
        let rate =
            test.rate.map(|per_second| RateShare { per_second, server_index: index, server_count: test.targets.len() });
        ServerLoad {
            index,
            test: Arc::clone(test),
            connector,
            schedule: Schedule::new(started, test.duration, rate),
            sent: AtomicU64::new(0),
            tally: Arc::clone(tally),
            stopper: stopper.clone(),
        }
    }

    fn target(&self) -> &Target {
        &self.test.targets[self.index]
    }

    async fn open(&self) -> Result<Client, ConnectionLost> {
        let target = self.target();
        let template = self.test.template(target);
        Client::open(&self.connector, target.protocol(), &template).await.map_err(ConnectionLost)
    }

    /// Returns whether to go on. A server that has never decided, and rejects the request or closes the connection,
    /// would not decide later either. Such a load measures nothing, so the test is aborted with the reason.
    fn is_worthwhile(&self, responses: &Responses, lost: Option<&ConnectionLost>) -> bool {
        let wrong = responses.iter().find_map(|(verdict, _)| match verdict {
            Verdict::Failed(error) if !error.is_transient => Some(error),
            _ => None,
        });
        let decided = || responses.iter().any(|(verdict, _)| !matches!(verdict, Verdict::Failed(_)));
        if (wrong.is_none() && lost.is_none()) || decided() || self.tally.has_decided(self.index) {
            return true;
        }
        let target = self.target();
        let why = match (wrong, lost) {
            (Some(error), _) => {
                format!("{target}: {}: {}. {}", error.kind, error.message, advice(&error.kind, target.protocol()))
            }
            (None, Some(ConnectionLost(message))) => format!(
                "{target}: the connection was lost before anything was decided: {message}. Is that the right port, and the \
                 right scheme ({} TLS)?",
                if target.is_tls() { "with" } else { "without" }
            ),
            (None, None) => return true,
        };
        self.stopper.abort(why);
        false
    }
}

/// Returns advice about a request error.
fn advice(kind: &str, protocol: Protocol) -> &'static str {
    let token = ["401", "403", "NOAUTH", "NOPERM", "WRONGPASS", "gRPC Unauthenticated", "gRPC PermissionDenied"];
    if token.iter().any(|word| kind.starts_with(word)) {
        return "Show the server's token with --token-file FILE, or in TIDEGATE_TOKEN";
    }
    match protocol {
        Protocol::Http => "--limit NAME chooses another limit; GET /v1/limits lists them",
        Protocol::Grpc => "--domain and --descriptor choose what is requested; is that the gRPC port?",
        Protocol::Resp => "--limit NAME chooses another limit; is that the port for the Redis protocol?",
    }
}

#[cfg(test)]
mod tests;
