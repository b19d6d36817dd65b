//! A two-tier store compared with one call per decision: one hot key, and sixteen processes that share a rate.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use tidegate::redis::RedisStore;
use tidegate::{Limiter, LimiterBuilder, Quota, TwoTierStore, seconds};
use tokio::time::sleep;

use super::{Server, THREADS};

/// Rounds. We report the best one: noise only ever adds time.
const ROUNDS: usize = 5;
const CONCURRENCY: u64 = 64;
const PROCESSES: u32 = 16;
/// The rate a second that the processes share. The burst is a tenth of it.
const RATE: u64 = 20_000;
/// The counted time, after the burst is used up.
const COUNTED: Duration = seconds(5);
const LIMIT: &str = "two_tier";

pub(super) fn run(server: &Server) {
    // A large quota for all clients.
    let plenty = Quota::token_bucket(4_000_000_000, seconds(1)).expect("a valid quota");
    let connect = || server.runtime.block_on(RedisStore::connect(&*server.url)).expect("a connection");
    let limits = || Limiter::builder().prefix(&server.prefix).limit(LIMIT, plenty);
    let alone = RedisStore::builder().coalesce_beyond(usize::MAX).connect(&*server.url);
    let alone = server.runtime.block_on(alone).expect("a connection");
    let alone = limits().store(alone).build().expect("a valid limiter");
    let shared = limits().store(connect()).build().expect("a valid limiter");
    let two_tier = limits()
        .store(TwoTierStore::builder().expected_replicas(PROCESSES).build(connect()))
        .build()
        .expect("a valid limiter");
    let mut best = [0_f64; 3];
    for _ in 0..ROUNDS {
        let rates = [hot(server, &alone, 50_000), hot(server, &shared, 50_000), hot(server, &two_tier, 5_000_000)];
        best = std::array::from_fn(|index| best[index].max(rates[index]));
    }
    println!(
        "\nDecisions a second about one key, concurrency {CONCURRENCY}, threads of the runtime: {THREADS}, the best of {ROUNDS} rounds"
    );
    let [alone, shared, two_tier] = best;
    println!("strict, one call each: {alone:.0}; strict, shared calls: {shared:.0}");
    println!("two-tier: {two_tier:.0}, {:.1}x and {:.1}x", two_tier / alone, two_tier / shared);

    let admitted = processes(server);
    let share = RATE as f64 * COUNTED.as_secs_f64() / f64::from(PROCESSES);
    let sum: u64 = admitted.iter().sum();
    let least = admitted.iter().min().expect("some").to_owned();
    println!("\n{PROCESSES} processes that share {RATE} a second and request more, counted for {COUNTED:?}");
    println!(
        "together {:.3} of the rate, the least {:.2} of its share: {admitted:?}",
        sum as f64 / share / f64::from(PROCESSES),
        least as f64 / share
    );
}

/// Returns the decisions a second about one key.
fn hot(server: &Server, limiter: &Limiter, requests: u64) -> f64 {
    let each = requests.div_ceil(CONCURRENCY);
    server.runtime.block_on(async {
        let began = Instant::now();
        let tasks: Vec<_> = (0..CONCURRENCY)
            .map(|_| {
                let limiter = limiter.clone();
                tokio::spawn(async move {
                    for _ in 0..each {
                        assert!(limiter.limit(LIMIT, "hot").await.expect("the server answers").allowed());
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("no panics here");
        }
        (each * CONCURRENCY) as f64 / began.elapsed().as_secs_f64()
    })
}

/// Returns the units admitted to each of the processes.
fn processes(server: &Server) -> Vec<u64> {
    let start = micros() + 3_000_000;
    let child = |_| {
        let program = std::env::current_exe().expect("this program");
        let mut child = Command::new(program);
        child.args(["redis", "two_tier", &server.prefix, &start.to_string()]).stdout(Stdio::piped());
        child.spawn().expect("a process")
    };
    let children: Vec<_> = (0..PROCESSES).map(child).collect();
    let admitted = children.into_iter().map(|child| {
        let output = child.wait_with_output().expect("its output");
        String::from_utf8_lossy(&output.stdout).trim().parse().expect("how much it was admitted")
    });
    admitted.collect()
}

/// Runs one of the processes. It begins at a time and prints the units that it was admitted.
pub(crate) fn process(prefix: &str, start: &str) {
    let server = Server::new();
    let start: u64 = start.parse().expect("microseconds");
    let quota = Quota::token_bucket(RATE, seconds(1)).and_then(|quota| quota.capacity(RATE / 10));
    let limiter = |limits: LimiterBuilder| limits.limit(LIMIT, quota.expect("a valid quota"));
    let store = TwoTierStore::builder().expected_replicas(PROCESSES).build(server.store.clone());
    let limiter = limiter(Limiter::builder().prefix(format!("{prefix}-shared"))).store(store);
    let limiter = limiter.build().expect("a valid limiter");
    let admitted = server.runtime.block_on(async {
        sleep(Duration::from_micros(start.saturating_sub(micros()))).await;
        let (from, mut admitted) = (start + 1_000_000, 0_u64);
        loop {
            let decision = limiter.limit(LIMIT, "u").await.expect("the server answers");
            let now = micros();
            if now >= from + COUNTED.as_micros() as u64 {
                return admitted;
            }
            admitted += u64::from(decision.allowed() && now >= from);
            if let Some(wait) = decision.retry_after() {
                sleep(wait).await;
            }
        }
    });
    println!("{admitted}");
}

fn micros() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_micros() as u64
}
