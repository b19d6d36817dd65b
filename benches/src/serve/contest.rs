//! Servers that are measured in turn, and how they compare.

use tidegate_servers::Program;

use crate::machine::{Cores, cpu_seconds};
use crate::workload::{beside, median};

/// Rounds that count.
const ROUNDS: usize = 7;
/// How many are tried for that. One more comes first, so that nobody begins cold.
const TRIED: usize = 4 * ROUNDS;
/// A round counts at once when the host has taken no more of the time than that, in percent, from any of the servers.
const QUIET: f64 = 1.0;

/// A server, and what asks it.
pub(super) struct Contestant<'a> {
    pub(super) name: &'a str,
    pub(super) server: &'a Program,
    pub(super) ask: Box<dyn Fn() -> Asked + 'a>,
}

/// What a load tool says.
pub(super) struct Asked {
    pub(super) requests: f64,
    pub(super) per_second: f64,
}

/// Measures all in turn, and prints how the first, tidegate, compares with each of the others. What a host gives to others it takes
/// from one server and not from the next: of the rounds that were tried, the quietest count.
pub(super) fn compare(contestants: &[Contestant<'_>]) {
    for contestant in contestants {
        contestant.measure();
    }
    let mut rounds: Vec<Round> = Vec::new();
    while rounds.iter().filter(|round| round.stolen <= QUIET).count() < ROUNDS && rounds.len() < TRIED {
        let servers: Vec<Measured> = contestants.iter().map(Contestant::measure).collect();
        let stolen = best(servers.iter().map(|server| server.stolen));
        rounds.push(Round { servers, stolen });
    }
    let tried = rounds.len();
    rounds.sort_by(|one, other| one.stolen.total_cmp(&other.stolen));
    rounds.truncate(ROUNDS);
    println!("{:<38} {:>10} {:>10} {:>10} {:>25}", "a second", "best", "median", "CPU s/M", "tidegate, beside it");
    for (at, contestant) in contestants.iter().enumerate() {
        let rates = |at: usize| rounds.iter().map(move |round| round.servers[at].per_second);
        let cpu = median(rounds.iter().map(|round| round.servers[at].cpu_micros));
        print!("{:<38} {:>10.0} {:>10.0} {cpu:>10.2}", contestant.name, best(rates(at)), median(rates(at)));
        if at > 0 {
            let [ours, other] = [0, at].map(|at| rates(at).collect::<Vec<_>>());
            print!("   best {:.2}x median {:.2}x", best(rates(0)) / best(rates(at)), beside(&ours, &other));
        }
        println!();
    }
    let most = best(rounds.iter().map(|round| round.stolen));
    println!("(rounds: {ROUNDS} of {tried}; stolen by the host from one of these servers: at most {most:.1} %)");
}

/// All servers, one after the other.
struct Round {
    servers: Vec<Measured>,
    /// The part of the time that the host gave to others while it was asked, of the server with the most of it, in percent.
    stolen: f64,
}

struct Measured {
    per_second: f64,
    /// For one request, which is also seconds for a million of them.
    cpu_micros: f64,
    stolen: f64,
}

impl Contestant<'_> {
    fn measure(&self) -> Measured {
        let (cores, before) = (Cores::now(), cpu_seconds(self.server.id()));
        let Asked { requests, per_second } = (self.ask)();
        let used = cpu_seconds(self.server.id()) - before;
        Measured { per_second, cpu_micros: used * 1e6 / requests, stolen: cores.stolen_since() }
    }
}

fn best(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(0.0, f64::max)
}
