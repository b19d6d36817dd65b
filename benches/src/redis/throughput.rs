//! Decisions per second, compared with plain commands through the same client and with `redis-benchmark`.

use tidegate::{Quota, seconds};

use super::clients::{CommandClient, LimiterClient};
use super::program::RedisBenchmark;
use super::{Server, THREADS};
use crate::server_load::{LoadClient, measure_rate};

pub(super) const LIMIT: &str = "throughput";
/// Rounds. We report the best one: noise only ever adds time.
const ROUNDS: usize = 5;

pub(super) fn run(server: &Server) {
    // A large quota, so that every decision is allowed and writes.
    let quota = Quota::token_bucket(1_000_000, seconds(1_000)).expect("a valid quota");
    server.load(&quota);
    let program = RedisBenchmark::new(server, &server.decision(LIMIT, "__rand_int__", &quota));
    let decide = LimiterClient::new(server, quota);
    let [get, incr] = ["GET", "INCR"].map(|verb| CommandClient::new(server, verb));
    println!(
        "\nDecisions a second through one connection, threads of the runtime: {THREADS}, the best of {ROUNDS} rounds, and as a"
    );
    println!("ratio to others: plain commands through this client, and redis-benchmark with this script");
    println!(
        "over N connections (-c N), and over one that sends N at once and waits for all (-c 1 -P N). Its command line:"
    );
    println!("{}\n", program.line());
    println!(
        "{:<11} {:>9} {:>16} {:>16} {:>22} {:>22}",
        "concurrency", "tidegate", "GET", "INCR", "redis-benchmark -c N", "-c 1 -P N"
    );
    for (concurrency, requests) in [(1, 20_000), (64, 100_000), (512, 100_000)] {
        let mut best = [0_f64; 5];
        for _ in 0..ROUNDS {
            let rates = [
                measure_client(server, &decide, concurrency, requests),
                measure_client(server, &get, concurrency, requests),
                measure_client(server, &incr, concurrency, requests),
                program.rate(concurrency, 1, requests),
                program.rate(1, concurrency, requests),
            ];
            best = std::array::from_fn(|index| best[index].max(rates[index]));
        }
        if concurrency == 1 {
            // Both columns run the same program when N is 1.
            best[3] = best[3].max(best[4]);
            best[4] = best[3];
        }
        let part = |other: usize| format!("{:.0} ({:.2}x)", best[other], best[0] / best[other]);
        println!(
            "{:<11} {:>9.0} {:>16} {:>16} {:>22} {:>22}",
            concurrency,
            best[0],
            part(1),
            part(2),
            part(3),
            part(4)
        );
    }
}

pub(super) fn measure_client(server: &Server, client: &impl LoadClient, concurrency: u64, requests: u64) -> f64 {
    server.runtime.block_on(measure_rate(client, concurrency, requests))
}
