//! One connection's share of the load.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::client::{Answer, Answers, Client, Lost, Refusal};
use super::keys::Keys;
use super::pace::{Pace, Rate};
use super::plan::{Plan, Server};
use super::stop::{Stop, Stopper};
use super::tally::Tally;
use super::target::Protocol;

/// How long after a failed attempt a connection is opened anew.
const REST: Duration = Duration::from_millis(100);

/// What the connections to one server share.
pub(super) struct Share {
    /// Which server it is.
    index: usize,
    plan: Arc<Plan>,
    pub(super) pace: Pace,
    /// Requests that were begun. Those among them that are not in the tally are under way.
    pub(super) begun: AtomicU64,
    tally: Arc<Tally>,
    stopper: Stopper,
}

/// Asks over one connection until it is over. A connection that is lost is opened anew.
pub(super) async fn work(share: Arc<Share>, client: Client, mut keys: Keys, mut stop: Stop) {
    let pipeline = if share.server().target.protocol == Protocol::Resp { share.plan.pipeline } else { 1 };
    let mut client = Some(client);
    let (mut asked, mut since) = (Vec::with_capacity(pipeline), Vec::with_capacity(pipeline));
    let mut answers = Answers::with_capacity(pipeline);
    while let Some(first) = share.pace.turn(&mut stop).await {
        since.clear();
        since.push(first);
        while since.len() < pipeline
            && let Some(another) = share.pace.another()
        {
            since.push(another);
        }
        asked.clear();
        asked.resize_with(since.len(), || keys.next());
        share.begun.fetch_add(asked.len() as u64, Ordering::Relaxed);

        let lost = match &mut client {
            Some(client) => client.ask(&asked, &mut answers).await.err(),
            None => match share.open().await {
                Ok(opened) => client.insert(opened).ask(&asked, &mut answers).await.err(),
                Err(lost) => Some(lost),
            },
        };
        if !share.makes_sense(&answers, lost.as_ref()) {
            return;
        }
        let reopen = lost.is_some();
        if let Some(Lost(message)) = lost {
            let refusal = Refusal { kind: "connection lost".to_owned(), message, passing: true };
            let now = Instant::now();
            answers.resize_with(asked.len(), || (Answer::Refused(Box::new(refusal.clone())), now));
            client = None;
        }
        let answered = answers.drain(..).zip(&since).map(|((answer, now), since)| (answer, *since, now));
        share.tally.count(share.index, answered);
        if reopen {
            tokio::select! {
                () = sleep(REST) => {}
                () = stop.told() => return,
            }
        }
    }
}

impl Share {
    pub(super) fn new(index: usize, plan: &Arc<Plan>, tally: &Arc<Tally>, stopper: &Stopper, begun: Instant) -> Self {
        let rate = plan.rate.map(|per_second| Rate { per_second, server: index, of: plan.servers.len() });
        Share {
            index,
            plan: Arc::clone(plan),
            pace: Pace::new(begun, plan.duration, rate),
            begun: AtomicU64::new(0),
            tally: Arc::clone(tally),
            stopper: stopper.clone(),
        }
    }

    fn server(&self) -> &Server {
        &self.plan.servers[self.index]
    }

    async fn open(&self) -> Result<Client, Lost> {
        let Server { target, dial, question } = self.server();
        Client::open(dial, target.protocol, question).await.map_err(Lost)
    }

    /// Whether to go on. A server that has never decided, and says that the question is wrong or hangs up, would not
    /// decide later either: a load of such answers measures nothing, so it ends, and people are told.
    fn makes_sense(&self, answers: &Answers, lost: Option<&Lost>) -> bool {
        let wrong = answers.iter().find_map(|(answer, _)| match answer {
            Answer::Refused(refusal) if !refusal.passing => Some(refusal),
            _ => None,
        });
        let decided = || answers.iter().any(|(answer, _)| !matches!(answer, Answer::Refused(_)));
        if (wrong.is_none() && lost.is_none()) || decided() || self.tally.has_decided(self.index) {
            return true;
        }
        let target = &self.server().target;
        let why = match (wrong, lost) {
            (Some(refusal), _) => {
                format!("{target}: {}: {}. {}", refusal.kind, refusal.message, advice(&refusal.kind, target.protocol))
            }
            (None, Some(Lost(message))) => format!(
                "{target}: the connection was lost before anything was decided: {message}. Is that the right port, and the \
                 right scheme ({} TLS)?",
                if target.tls { "with" } else { "without" }
            ),
            (None, None) => return true,
        };
        self.stopper.fail(why);
        false
    }
}

/// What to do about a refusal.
fn advice(kind: &str, protocol: Protocol) -> &'static str {
    let token = ["401", "403", "NOAUTH", "NOPERM", "WRONGPASS", "gRPC Unauthenticated", "gRPC PermissionDenied"];
    if token.iter().any(|word| kind.starts_with(word)) {
        return "Show the server's token with --token-file FILE, or in TIDEGATE_TOKEN";
    }
    match protocol {
        Protocol::Http => "--limit NAME chooses another limit; GET /v1/limits lists them",
        Protocol::Grpc => "--domain and --descriptor choose what is asked for; is that the gRPC port?",
        Protocol::Resp => "--limit NAME chooses another limit; is that the port for the Redis protocol?",
    }
}

#[cfg(test)]
mod tests;
