//! Servers that are measured in turn, and how they compare.

use tidegate_servers::Program;

use crate::machine::{Cores, cpu_seconds};

/// Rounds that count. One more comes first, in which every server gets to know the keys.
const ROUNDS: usize = 5;

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

/// Measures all in turn, and prints how the first, tidegate, compares with each of the others.
pub(super) fn compare(contestants: &[Contestant<'_>]) {
    let cores = Cores::now();
    let mut rounds: Vec<Vec<Round>> = contestants.iter().map(|_| Vec::new()).collect();
    for round in 0..=ROUNDS {
        for (contestant, rounds) in contestants.iter().zip(&mut rounds) {
            let measured = contestant.measure();
            if round > 0 {
                rounds.push(measured);
            }
        }
    }
    let stolen = cores.stolen_since();
    println!("{:<38} {:>10} {:>10} {:>10} {:>25}", "a second", "best", "median", "CPU s/M", "tidegate, beside it");
    for (contestant, other) in contestants.iter().zip(&rounds) {
        let rates = || other.iter().map(|round| round.per_second);
        let cpu = median(other.iter().map(|round| round.cpu_micros));
        print!("{:<38} {:>10.0} {:>10.0} {cpu:>10.2}", contestant.name, best(rates()), median(rates()));
        if !std::ptr::eq(other, &rounds[0]) {
            let parts = || rounds[0].iter().zip(other).map(|(ours, other)| ours.per_second / other.per_second);
            let at_best = best(rounds[0].iter().map(|round| round.per_second)) / best(rates());
            print!("   best {at_best:.2}x median {:.2}x", median(parts()));
        }
        println!();
    }
    println!("(rounds: {ROUNDS}; stolen by the host: {stolen:.1} %)");
}

struct Round {
    per_second: f64,
    /// For one request, which is also seconds for a million of them.
    cpu_micros: f64,
}

impl Contestant<'_> {
    fn measure(&self) -> Round {
        let before = cpu_seconds(self.server.id());
        let Asked { requests, per_second } = (self.ask)();
        let used = cpu_seconds(self.server.id()) - before;
        Round { per_second, cpu_micros: used * 1e6 / requests }
    }
}

fn best(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(0.0, f64::max)
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
