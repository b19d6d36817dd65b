//! The load: connections, and the time it takes.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout};

use super::client::{Client, Refusal};
use super::plan::{Plan, Server};
use super::progress::Progress;
use super::stop::Stopper;
use super::tally::{Counted, Tally};
use super::worker::{Share, work};
use crate::failure::Failure;

/// How long the last answers are waited for.
const GRACE: Duration = Duration::from_secs(5);
/// How often the bar moves.
const TICK: Duration = Duration::from_millis(100);
/// How many connections are opened at once: more would only queue up at the server.
const OPENING: usize = 64;

/// What came of it.
pub(super) struct Outcome {
    pub(super) counted: Counted,
    /// How long a point of the picture is.
    pub(super) slot: Duration,
    /// From the first request to the last answer, or to the end where that was later.
    pub(super) took: Duration,
    /// How long requests were sent.
    pub(super) sending: Duration,
    /// For each server, how many requests were due and not sent, since no connection was free.
    pub(super) unsent: Vec<u64>,
}

/// Puts the load on the servers.
pub(super) async fn run(plan: Plan, progress: &Progress) -> Result<(Plan, Outcome), Failure> {
    let plan = Arc::new(plan);
    let clients = open(&plan).await?;
    let begun = Instant::now();
    let tally = Arc::new(Tally::new(plan.servers.len(), begun, plan.duration));
    let (stopper, stop) = Stopper::new();
    let share = |index| Arc::new(Share::new(index, &plan, &tally, &stopper, begun));
    let shares: Vec<_> = (0..plan.servers.len()).map(share).collect();
    let mut working = JoinSet::new();
    for (connection, client) in clients.into_iter().enumerate() {
        let share = Arc::clone(&shares[connection % shares.len()]);
        working.spawn(work(share, client, plan.keys(connection), stop.clone()));
    }

    tokio::select! {
        () = sleep_until(begun + plan.duration) => {}
        () = interrupted() => {}
        () = all(&mut working) => {}
        () = show(progress, &tally, begun) => {}
    }
    stopper.stop();
    let ended = Instant::now().min(begun + plan.duration);
    tally.end(ended);
    // Until the last answers are there, but not for ever; Ctrl-C, perhaps again, does not wait for them.
    tokio::select! {
        _ = timeout(GRACE, all(&mut working)) => {}
        () = interrupted() => {}
    }
    working.shutdown().await;
    progress.finish();
    if let Some(why) = stopper.why() {
        return Err(Failure::Load(why));
    }

    let begun_requests: Vec<_> = shares.iter().map(|share| share.begun.load(Ordering::Relaxed)).collect();
    let unsent = shares.iter().zip(&begun_requests).map(|(share, begun)| share.pace.unsent(ended, *begun)).collect();
    drop(shares);
    let tally = Arc::into_inner(tally).expect("nobody counts any more");
    let (mut counted, slot) = tally.finish();
    for (server, begun) in counted.servers.iter_mut().zip(begun_requests) {
        let missing = begun - server.requests();
        if missing > 0 {
            let message = "no answer until the end, nor soon after it".to_owned();
            server.failed(&Refusal { kind: "no answer".to_owned(), message, passing: true }, missing);
        }
    }
    let took = counted.last.max(ended).saturating_duration_since(begun);
    let plan = Arc::into_inner(plan).expect("nobody works any more");
    Ok((plan, Outcome { counted, slot, took, sending: ended.saturating_duration_since(begun), unsent }))
}

/// Opens all connections, evenly over the servers, before the time starts.
async fn open(plan: &Arc<Plan>) -> Result<Vec<Client>, Failure> {
    let mut opening = JoinSet::new();
    let mut opened = Vec::with_capacity(plan.connections);
    let mut connections = 0..plan.connections;
    loop {
        while opening.len() < OPENING
            && let Some(connection) = connections.next()
        {
            let plan = Arc::clone(plan);
            opening.spawn(async move {
                let Server { target, dial, question } = &plan.servers[connection % plan.servers.len()];
                let client = Client::open(dial, target.protocol, question).await;
                client.map(|client| (connection, client)).map_err(|why| format!("{target}: {why}"))
            });
        }
        let Some(joined) = opening.join_next().await else { break };
        match joined.map_err(|error| error.to_string()).and_then(|opened| opened) {
            Ok(client) => opened.push(client),
            Err(why) if opened.is_empty() => return Err(Failure::Load(why)),
            Err(why) => {
                let (had, wanted) = (opened.len(), plan.connections);
                return Err(Failure::Load(format!(
                    "{why}\n({had} of {wanted} connections were open by then: if that is as many as there can be, ask for \
                     fewer with --connections)"
                )));
            }
        }
    }
    // Whose turn it is decides about servers and keys, not who was there first.
    opened.sort_by_key(|(connection, _)| *connection);
    Ok(opened.into_iter().map(|(_, client)| client).collect())
}

async fn all(working: &mut JoinSet<()>) {
    while working.join_next().await.is_some() {}
}

/// Moves the bar, for ever.
async fn show(progress: &Progress, tally: &Tally, begun: Instant) {
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        ticks.tick().await;
        progress.tell(begun.elapsed(), tally.so_far());
    }
}

/// Waits for Ctrl-C.
async fn interrupted() {
    if tokio::signal::ctrl_c().await.is_err() {
        // It cannot be heard, and ends the program as it always did.
        std::future::pending::<()>().await;
    }
}
