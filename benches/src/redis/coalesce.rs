//! Decisions that share script calls, compared with one call per decision.

use tidegate::redis::RedisStore;
use tidegate::{Quota, seconds};

use super::clients::LimiterClient;
use super::throughput::measure_client;
use super::{Server, THREADS};
use crate::server_load::KEYS;

/// Rounds. We report the best one: noise only ever adds time.
const ROUNDS: usize = 5;

pub(super) fn run(server: &Server) {
    // A large quota, so that every decision is allowed and writes.
    let quota = Quota::token_bucket(1_000_000, seconds(1_000)).expect("a valid quota");
    server.load(&quota);
    let stores = [RedisStore::builder().coalesce_beyond(usize::MAX), RedisStore::builder()];
    let contenders = stores.map(|builder| LimiterClient::with_builder(server, builder, quota));
    println!(
        "\nDecisions a second about {KEYS} keys through one connection, threads of the runtime: {THREADS}, the best of {ROUNDS}"
    );
    println!(
        "rounds in turn: with one call for each decision, and with the calls that the store shares by itself. Then the cost"
    );
    println!(
        "of a decision for the server in CPU microseconds (INFO cpu), in the cheapest round, and the number of shared calls"
    );
    println!("for each decision. At a concurrency of 1 the rate is latency, and no call is shared.\n");
    println!(
        "{:<11} {:>13} {:>16} {:>12} {:>16} {:>8}",
        "concurrency", "one call each", "shared", "us each", "us shared", "calls"
    );
    for (concurrency, requests) in [(1, 10_000), (8, 20_000), (64, 50_000), (512, 100_000)] {
        let (mut best, mut least, mut calls) = ([0_f64; 2], [f64::MAX; 2], 0.0);
        for _ in 0..ROUNDS {
            for (index, decide) in contenders.iter().enumerate() {
                let before = server.spent();
                best[index] = best[index].max(measure_client(server, decide, concurrency, requests));
                let after = server.spent();
                let each = [0, 1].map(|what| (after[what] - before[what]) as f64 / requests as f64);
                calls = each[0];
                least[index] = least[index].min(each[1]);
            }
        }
        let shared = format!("{:.0} ({:.2}x)", best[1], best[1] / best[0]);
        let cost = format!("{:.2} ({:.2}x)", least[1], least[0] / least[1]);
        println!("{concurrency:<11} {:>13.0} {shared:>16} {:>12.2} {cost:>16} {calls:>8.2}", best[0], least[0]);
    }
}
