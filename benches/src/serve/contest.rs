//! Measures several servers in turn and prints the ratios of their rates.

use tidegate_servers::Program;

use crate::machine::{CoreTimes, cpu_seconds, own_cpu_seconds};
use crate::workload::{median, median_ratio};

/// The number of rounds. They are many and short, so that other load on the machine affects all servers of a round
/// alike.
const ROUNDS: usize = 41;
/// The unmeasured rounds of each server, so that none begins cold. Many keys are still new to every server after them.
const WARMUP_ROUNDS: usize = 5;

/// A server and its load tool.
pub(super) struct Contestant<'a> {
    pub(super) name: &'a str,
    pub(super) server: &'a Program,
    pub(super) run_load: Box<dyn Fn() -> LoadResult + 'a>,
}

/// The result of a load tool.
pub(super) struct LoadResult {
    pub(super) requests: f64,
    pub(super) per_second: f64,
}

/// Measures all servers in turn. Prints the first, tidegate, as a ratio to each other one: of the best rounds, and the
/// median over the ratios within a round.
pub(super) fn compare(contestants: &[Contestant<'_>]) {
    for contestant in contestants.iter().flat_map(|contestant| [contestant; WARMUP_ROUNDS]) {
        contestant.measure();
    }
    let cores = CoreTimes::now();
    let rounds: Vec<Vec<Measurement>> =
        (0..ROUNDS).map(|_| contestants.iter().map(Contestant::measure).collect()).collect();
    println!(
        "{:<38} {:>8} {:>8} {:>8} {:>6} {:>25}",
        "a second", "best", "median", "CPU s/M", "tool", "tidegate, beside it"
    );
    for (at, contestant) in contestants.iter().enumerate() {
        let rates = |at: usize| rounds.iter().map(move |round| round[at].per_second);
        let sum = |part: fn(&Measurement) -> f64| rounds.iter().map(|round| part(&round[at])).sum::<f64>();
        let cpu = sum(|measured| measured.cpu) * 1e6 / sum(|measured| measured.requests);
        // Relative to one core, with the startup of the tool. The tools have one thread, so near 100 % the tool is the
        // bottleneck.
        let tool = 100.0 * sum(|measured| measured.tool) / sum(|measured| measured.requests / measured.per_second);
        let [best_rate, median_rate] = [best(rates(at)), median(rates(at))];
        print!("{:<38} {best_rate:>8.0} {median_rate:>8.0} {cpu:>8.2} {tool:>4.0} %", contestant.name);
        if at > 0 {
            let [ours, other] = [0, at].map(|at| rates(at).collect::<Vec<_>>());
            print!("   best {:.2}x median {:.2}x", best(rates(0)) / best_rate, median_ratio(&ours, &other));
        }
        println!();
    }
    println!(
        "({ROUNDS} rounds; meanwhile the host gave {:.1} % of the time of all cores to others)",
        cores.stolen_since()
    );
}

struct Measurement {
    requests: f64,
    per_second: f64,
    /// The CPU time of the server for all requests in seconds, counted in ticks of the kernel.
    cpu: f64,
    /// The CPU time of the load tool.
    tool: f64,
}

impl Contestant<'_> {
    fn measure(&self) -> Measurement {
        let used = || [cpu_seconds(self.server.id()), own_cpu_seconds()];
        let before = used();
        let LoadResult { requests, per_second } = (self.run_load)();
        let after = used();
        Measurement { requests, per_second, cpu: after[0] - before[0], tool: after[1] - before[1] }
    }
}

fn best(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(0.0, f64::max)
}
