//! The cost of a decision as keys and limits grow.

use std::hint::black_box;
use std::time::{Duration, Instant};

use tidegate::{Limiter, MemoryStore, Quota, seconds};

use crate::peers::{ClockedYardstick, Limit, Peer, Tidegate, Yardstick};
use crate::picture::{self, Line};
use crate::workload::Random;

/// Decisions in one round.
const DECISIONS: usize = 1_000_000;
/// Rounds. We report the best one: noise only ever adds time.
const ROUNDS: usize = 5;
/// A generous size of a key in bytes. A case runs only if the machine has twice the memory for its keys.
const BYTES: u64 = 64;

pub(crate) fn run() {
    println!(
        "\nNanoseconds for a decision about random keys of 8 bytes in one thread, the best of {ROUNDS} rounds of {DECISIONS}, as"
    );
    println!(
        "keys grow. Then one compare-and-swap on a table of that size, with and without a clock that is read before it.\n"
    );
    println!("{:<12} {:>9} {:>15} {:>15}", "keys", "tidegate", "clock, swap", "one swap");
    let room = available();
    let (mut ours, mut clock, mut swap) = (Vec::new(), Vec::new(), Vec::new());
    for keys in (3..=8).map(|power| 10_u64.pow(power)) {
        if keys * BYTES * 2 > room {
            println!("{keys:<12} skipped: only {} MB of memory are free", room >> 20);
            continue;
        }
        let [tidegate, with_clock, alone] = of_keys(keys);
        let beside = |other: f64| format!("{other:.1} ({:.2}x)", other / tidegate);
        println!("{keys:<12} {tidegate:>9.1} {:>15} {:>15}", beside(with_clock), beside(alone));
        ours.push((keys, tidegate));
        clock.push((keys, with_clock));
        swap.push((keys, alone));
    }
    println!("\nNanoseconds for a decision as limits grow, called by name, each with a key of its own.\n");
    println!("{:<12} {:>9}", "limits", "tidegate");
    let mut named = Vec::new();
    for limits in (0..=4).map(|power| 10_u64.pow(power)) {
        let nanos = of_limits(limits);
        println!("{limits:<12} {nanos:>9.1}");
        named.push((limits, nanos));
    }
    let lines = [
        Line { name: "by keys", points: ours },
        Line { name: "the clock, one compare-and-swap", points: clock },
        Line { name: "one compare-and-swap", points: swap },
        Line { name: "by limits", points: named },
    ];
    picture::lines("scale", "Nanoseconds for a decision, as keys or limits grow", &lines);
}

fn of_keys(keys: u64) -> [f64; 3] {
    // So slow that keys stay busy, and so large that no key is denied.
    let limit = Limit { burst: 1_000_000, every: Duration::from_secs(10) };
    let filled = Tidegate::new(limit, keys as usize);
    for key in 0..keys {
        assert!(Peer::<u64>::decide(&filled, &key));
    }
    let mut random = Random(keys);
    let stream: Vec<u64> = (0..DECISIONS).map(|_| random.next() % keys).collect();
    let tidegate = best(|| stream.iter().filter(|key| filled.decide(*key)).count());
    drop(filled);
    let with_clock = ClockedYardstick(Yardstick::new(keys));
    let clock = best(|| stream.iter().filter(|key| with_clock.decide(key)).count());
    let ClockedYardstick(alone) = with_clock;
    [tidegate, clock, best(|| stream.iter().filter(|key| alone.decide(key)).count())]
}

fn of_limits(limits: u64) -> f64 {
    let names: Vec<String> = (0..limits).map(|number| format!("limit-{number}")).collect();
    // Enough for all rounds, even for one key.
    let quota = Quota::token_bucket(1_000_000, seconds(1_000)).and_then(|quota| quota.capacity(4_000_000_000));
    let quota = quota.expect("a valid quota");
    let named = names.iter().map(|name| (name.clone(), quota));
    let limiter = Limiter::builder().limits(named).store(MemoryStore::new()).build().expect("a valid limiter");
    let decide = |name: &str| limiter.limit(name, 7).try_now().expect("it is there").allowed();
    assert!(names.iter().all(|name| decide(name)));
    let mut random = Random(limits);
    let stream: Vec<&str> = (0..DECISIONS).map(|_| &*names[(random.next() % limits) as usize]).collect();
    best(|| stream.iter().filter(|name| decide(name)).count())
}

/// Returns the nanoseconds for each decision in the best round.
fn best(round: impl Fn() -> usize) -> f64 {
    let nanos = (0..ROUNDS).map(|_| {
        let began = Instant::now();
        // A limiter with an unexpected answer measures something else.
        assert_eq!(black_box(round()), DECISIONS);
        began.elapsed().as_nanos() as f64 / DECISIONS as f64
    });
    nanos.fold(f64::MAX, f64::min)
}

/// Returns the free memory in bytes.
fn available() -> u64 {
    let meminfo = std::fs::read_to_string("/proc/meminfo").expect("Linux's own account of memory");
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kilobytes.expect("a number of kilobytes") << 10
}
