//! Time per decision, for every key distribution and key type, on one and two threads, allowed and denied.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use crate::peers::{
    BenchKey, ClockedYardstick, FastGovernor, Governor, HandwrittenLimiter, Limit, Peer, SequentialYardstick, Tidegate,
    Yardstick,
};
use crate::picture::{self, Bars};
use crate::workload::{KEYS, KeyDraw, key_numbers, key_text};

/// The decisions of a thread in one round.
const DECISIONS: usize = 1_000_000;
/// Rounds. We report the best one: noise only ever adds time.
const ROUNDS: usize = 5;
/// The factor of rounds for a hot key. It needs no million decisions, so more and shorter rounds find a quiet moment.
const HOT: usize = 5;

/// Measures every distribution of keys, or those with this prefix.
pub(crate) fn run(only: &str) {
    let draws = [KeyDraw::Hot, KeyDraw::Uniform, KeyDraw::Zipf];
    crate::is_one_of(only, &draws.map(KeyDraw::name));
    println!(
        "\nNanoseconds for a decision in one thread, the best of {ROUNDS} rounds of {DECISIONS} ({HOT} times as\nmany rounds, {HOT} times as short, for a hot key in one thread), and how many times"
    );
    println!(
        "faster tidegate is. Every peer reads its clock for every decision. Keys come from memory in order. A swap is a\ncompare-and-swap on a table of that size, without a hash, a clock or a limit: many in flight at a time, one after\nthe other, and many with a clock.\n"
    );
    println!(
        "{:<11} {:<6} {:<8} {:>7} {:>9} {:>13} {:>14} {:>14} {:>13} {:>13} {:>13}",
        "keys",
        "type",
        "answer",
        "threads",
        "tidegate",
        "governor",
        "gov. fast hash",
        "DashMap+Mutex",
        "swaps at once",
        "swaps in turn",
        "clock, swap"
    );
    let mut bars = Vec::new();
    for draw in draws.into_iter().filter(|draw| draw.name().starts_with(only)) {
        for denied in [false, true] {
            for threads in [1, 2] {
                bars.push(row("String", draw, denied, threads, key_text));
                bars.push(row("u64", draw, denied, threads, |number| number));
            }
        }
    }
    if only.is_empty() {
        // Bars for every kind of key and thread would be too many.
        let shown = |bar: &&Bars| bar.group.contains("String") && bar.group.contains("1 thread");
        picture::bars("speed", "Nanoseconds for a decision", &PEERS, bars.iter().filter(shown));
    }
}

const PEERS: [&str; 7] = [
    "tidegate",
    "governor",
    "governor, fast hash",
    "DashMap and Mutex",
    "compare-and-swaps at once",
    "one after the other",
    "the clock, compare-and-swap",
];

fn row<K: BenchKey>(kind: &str, draw: KeyDraw, denied: bool, threads: usize, key: impl Fn(u64) -> K) -> Bars {
    let limit = match (denied, draw) {
        (true, _) => Limit { burst: 1, every: Duration::from_secs(3_600) },
        // So slow that keys stay busy between two requests, and so large that no key is denied.
        (false, KeyDraw::Hot) => Limit { burst: 4_000_000_000, every: Duration::from_micros(1) },
        (false, _) => Limit { burst: 1_000_000, every: Duration::from_secs(10) },
    };
    // A hot key is a single key that is requested all the time.
    let len = if draw == KeyDraw::Hot { 1 } else { DECISIONS };
    let places: Vec<Vec<u64>> = (0..threads).map(|thread| key_numbers(draw, len, 1 + thread as u64)).collect();
    let streams: Vec<Vec<K>> = places.iter().map(|places| places.iter().copied().map(&key).collect()).collect();
    let shorter = if draw == KeyDraw::Hot && threads == 1 { HOT } else { 1 };
    let decisions = DECISIONS / shorter;
    let tidegate = Contender::new(Tidegate::new(limit, KEYS as usize), draw, &key);
    let governor = Contender::new(Governor::new(limit), draw, &key);
    let fast_governor = Contender::new(FastGovernor::new(limit), draw, &key);
    let by_hand = Contender::new(HandwrittenLimiter::new(limit), draw, &key);
    let yardstick = Contender(Yardstick::new(KEYS));
    let in_turn = Contender(SequentialYardstick(Yardstick::new(KEYS)));
    let with_clock = Contender(ClockedYardstick(Yardstick::new(KEYS)));
    let mut best = [f64::MAX; PEERS.len()];
    for _ in 0..ROUNDS * shorter {
        // Each call has its own copy of the loop, as in a service. None goes through a pointer.
        let times = [
            tidegate.round(&streams, decisions, denied),
            governor.round(&streams, decisions, denied),
            fast_governor.round(&streams, decisions, denied),
            by_hand.round(&streams, decisions, denied),
            yardstick.round(&places, decisions, false),
            in_turn.round(&places, decisions, false),
            with_clock.round(&places, decisions, false),
        ];
        best = std::array::from_fn(|peer| best[peer].min(times[peer]));
    }
    let answer = if denied { "denied" } else { "allowed" };
    let ratio = |other: usize| format!("{:.0} ({:.2}x)", best[other], best[other] / best[0]);
    println!(
        "{:<11} {:<6} {:<8} {:>7} {:>9.0} {:>13} {:>14} {:>14} {:>13} {:>13} {:>13}",
        draw.name(),
        kind,
        answer,
        threads,
        best[0],
        ratio(1),
        ratio(2),
        ratio(3),
        ratio(4),
        ratio(5),
        ratio(6)
    );
    let group = format!("{}, {kind}, {answer}, {threads} thread{}", draw.name(), if threads == 1 { "" } else { "s" });
    Bars { group, values: best.to_vec() }
}

/// A limiter that knows every key, so that no key is new during the measurement.
struct Contender<P>(P);

impl<P> Contender<P> {
    fn new<K: BenchKey>(peer: P, draw: KeyDraw, key: impl Fn(u64) -> K) -> Self
    where
        P: Peer<K>,
    {
        (0..KEYS).filter(|number| draw != KeyDraw::Hot || *number == 7).for_each(|number| {
            peer.decide(&key(number));
        });
        Contender(peer)
    }

    /// Returns the nanoseconds for a decision when every thread processes its stream once.
    fn round<K: BenchKey>(&self, streams: &[Vec<K>], decisions: usize, denied: bool) -> f64
    where
        P: Peer<K>,
    {
        let start = Barrier::new(streams.len());
        let times: Vec<f64> = std::thread::scope(|scope| {
            let threads: Vec<_> = streams
                .iter()
                .map(|stream| {
                    let start = &start;
                    scope.spawn(move || {
                        start.wait();
                        let began = Instant::now();
                        let keys = stream.iter().cycle().take(decisions);
                        let allowed = self.0.decide_each(keys);
                        let elapsed = began.elapsed();
                        // A limiter with an unexpected answer measures something else.
                        assert_eq!(allowed, if denied { 0 } else { decisions });
                        elapsed.as_nanos() as f64 / decisions as f64
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().expect("no panics here")).collect()
        });
        times.iter().sum::<f64>() / times.len() as f64
    }
}
