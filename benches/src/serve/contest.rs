//! Measures several servers in turn and prints how they compare.

use tidegate_servers::Program;

use crate::machine::{CoreTimes, cpu_seconds, own_cpu_seconds};
use crate::workload::{median, median_ratio};

/// How many rounds. They are many and short, so that what others do on the machine meets all servers of a round nearly alike.
const ROUNDS: usize = 41;
/// How often each is asked before that, so that nobody begins cold. Many of the keys are still new then, to all of them.
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

/// Measures all in turn, and prints how the first, tidegate, compares with each of the others: the best of all rounds with the best, and
/// what it is beside the other in the same round, in the median.
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
        // Of one core, and what the tool takes to begin is in it: the tools have one thread, and near 100 % they cannot ask for more.
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
    /// Seconds of the server's, for all of them; counted in ticks of the kernel.
    cpu: f64,
    /// The same of the load tool's.
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
