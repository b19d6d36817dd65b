//! Figures of how close a controller comes to the best limit, and their table.

use std::fmt::Write;

use super::{Contender, Moment, Scene, Server};

/// The figures of a stretch of time, each as a multiple of the best value.
#[derive(Debug, Clone, Copy)]
pub struct Figures {
    /// The mean limit over time, relative to the knee.
    pub limit: f64,
    /// The requests answered in time, relative to the server's capacity.
    pub answered: f64,
    /// The mean latency, relative to the latency without load.
    pub took: f64,
}

impl Figures {
    /// Computes the figures of at least one moment.
    pub fn from_moments(server: &Server, moments: &[Moment]) -> Self {
        let sum = |what: fn(&Moment) -> u64| moments.iter().map(what).sum::<u64>() as f64;
        let (count, answered) = (moments.len() as f64, sum(|moment| u64::from(moment.answered)));
        Figures {
            limit: sum(|moment| u64::from(moment.limit)) / count / server.knee(),
            answered: answered / (count * Moment::SECONDS) / server.capacity(),
            took: sum(|moment| moment.took) / answered.max(1.0) / server.unloaded_latency() as f64,
        }
    }
}

/// The servers of the comparison, with knees at 8, 32 and 120. In some, a request is all work; in others, it is mostly
/// waiting.
pub const SERVERS: [Server; 5] = [
    Server { workers: 8, work: 10_000, wait: 0 },
    Server { workers: 2, work: 10_000, wait: 30_000 },
    Server { workers: 8, work: 5_000, wait: 15_000 },
    Server { workers: 30, work: 20_000, wait: 60_000 },
    Server { workers: 120, work: 100_000, wait: 0 },
];

/// Returns a minute of three times the load that a server can do, from the start.
pub fn sustained_overload(server: Server, seed: u64) -> Scene {
    Scene { server, load: vec![(3.0, 60)], outage: None, client_timeout: 1_000_000, seed }
}

/// Returns the last third of a run, in which the limit has settled.
pub fn settled(moments: &[Moment]) -> &[Moment] {
    &moments[moments.len() * 2 / 3..]
}

/// Returns a Markdown table of all contenders under a sustained overload.
pub fn table() -> String {
    let mut table = String::from("| |");
    for server in SERVERS {
        let _ = write!(table, " best: {} · 100% · {} ms |", server.knee(), server.unloaded_latency() / 1_000);
    }
    table.push_str("\n| --- |");
    table.push_str(&" --- |".repeat(SERVERS.len()));
    for contender in [Contender::OURS, Contender::PUBLISHED].concat() {
        let _ = write!(table, "\n| {} |", contender.name());
        for server in SERVERS {
            let moments = sustained_overload(server, 1).play(contender.limit(&server));
            let Figures { limit, answered, took } = Figures::from_moments(&server, settled(&moments));
            let _ = write!(
                table,
                " {:.0} · {:.0}% · {:.0} ms |",
                limit * server.knee(),
                answered * 100.0,
                took * server.unloaded_latency() as f64 / 1e3
            );
        }
    }
    table.push('\n');
    table
}
