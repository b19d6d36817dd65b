//! Mixed hostile load on every port at once, while well-behaved clients are served and exhausted keys must stay exhausted.
//!
//! It runs for a few seconds, and for as long as `TIDEGATE_HOSTILE_SECONDS` says: `cargo xtask deep` runs it for an hour.
// The load runs in real time, and its table is for the reader.
#![allow(clippy::disallowed_methods, clippy::print_stdout)]

mod attacks;
mod probes;

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use tidegate_servers::wait_until;
use tidegate_testkit::Random;

use super::{assert_clean_shutdown, memory_mib};
use crate::serve::program::Program;
use crate::serve::{url, write_file};
use attacks::Target;
use probes::{Answer, Probe};

/// The load in the usual tests. The variable `TIDEGATE_HOSTILE_SECONDS` overrides it.
const DEFAULT_SECONDS: u64 = 3;
const ATTACKERS: u64 = 12;
/// The table has a row for each of so many parts of the time, but no more than one a second.
const ROWS: u32 = 60;

/// The limits whose keys are exhausted. Only the last one is there on every port.
const EXACT_LIMITS: [&str; 4] = ["exact-bucket", "exact-window", "exact-log", "shop.exact"];
const EXACT_KEYS: u64 = 25;
const EXACT_QUOTA: u64 = 5;
/// The quota of a well-behaved client, which no other client uses. Most of it is used from the beginning: a full store evicts
/// the keys that have used the smallest share.
const HONEST_QUOTA: u64 = 1_000_000_000;
const HONEST_USED: u64 = 900_000_000;
const HONEST_PAUSE: Duration = Duration::from_millis(10);

/// The most memory of the server, in MiB: 64 for the store, and what connections may have in flight.
const MAX_RESIDENT_MIB: u64 = 768;
/// How much more the last quarter of a run may take than the second, in MiB.
const MAX_GROWTH_MIB: u64 = 64;
/// Threads and runtimes open a few files after their start.
const MAX_MORE_FILES: usize = 16;

#[test]
fn hostile_load_on_memory_takes_nothing_from_exhausted_keys() {
    let run = HostileRun::start("memory", &["--max-keys", "200000", "--max-bytes", "67108864"]);
    run.attack();
    // No store can be late here.
    assert_eq!(run.counters.refused.load(Ordering::Relaxed), 0, "honest requests were refused");
    assert_clean_shutdown(run.program);
}

#[cfg(feature = "_real-servers")]
#[test]
fn hostile_load_on_redis_takes_nothing_from_exhausted_keys() {
    use tidegate_servers::{Redis, required_env};
    let [server, cli] = ["TIDEGATE_REDIS_SERVER", "TIDEGATE_REDIS_CLI"].map(required_env);
    let redis = Redis::start(server.as_ref(), cli.as_ref(), &[]).expect("a server");
    let run = HostileRun::start("redis", &["--store", &redis.url()]);
    run.attack();
    assert_clean_shutdown(run.program);
}

/// Writes the config. The limits that are watched stay as they are, and everything around them changes. Some configs are wrong.
fn write_config(name: &str, turn: u64) -> String {
    let rules = format!("hostile-{name}-rules.yaml");
    let honest = ["http", "grpc", "resp"].map(|port| {
        format!("  - {{key: honest-{port}, rate_limit: {{unit: year, requests_per_unit: {HONEST_QUOTA}}}}}\n")
    });
    write_file(
        &rules,
        format!(
            "domain: shop\ndescriptors:\n{}  - {{key: user, rate_limit: {{unit: day, requests_per_unit: {}}}}}\n  \
             - {{key: exact, rate_limit: {{unit: year, requests_per_unit: {EXACT_QUOTA}}}}}\n",
            honest.concat(),
            3 + turn % 9
        ),
    );
    // A store that is late must not admit: a failure is no admission.
    let mut config = "[defaults]\non_store_error = \"closed\"\n".to_owned();
    for (limit, algorithm) in EXACT_LIMITS.iter().zip(["token_bucket", "sliding_window", "sliding_log"]) {
        config += &format!("[limits.{limit}]\nalgorithm = \"{algorithm}\"\nrate = {EXACT_QUOTA}\nperiod = \"360d\"\n");
    }
    for (limit, algorithm) in [("flood", "token_bucket"), ("flood-log", "sliding_log")] {
        config += &format!("[limits.{limit}]\nalgorithm = \"{algorithm}\"\nrate = 1000\nperiod = \"1d\"\n");
    }
    config += "[limits.flood-leases]\nalgorithm = \"concurrency\"\ncapacity = 100\nttl = \"5s\"\n";
    for other in 0..turn % 50 {
        config += &format!("[limits.other-{other}]\nalgorithm = \"token_bucket\"\nrate = {turn}\nperiod = \"1d\"\n");
    }
    if turn % 7 == 3 {
        config += "[limits.wrong]\nrate = 0\n";
    }
    write_file(&format!("hostile-{name}.toml"), format!("{config}[envoy]\nconfigs = [\"{rules}\"]\n"))
}

/// The limit of the well-behaved client of a port.
fn honest_limit(port: &str) -> String {
    format!("shop.honest-{port}")
}

/// The keys that are exhausted, with their limits.
fn exact_keys() -> impl Iterator<Item = (&'static str, String)> {
    EXACT_LIMITS.into_iter().flat_map(|limit| (0..EXACT_KEYS).map(move |key| (limit, format!("exact-{key}"))))
}

/// The counts of everything so far.
#[derive(Default)]
struct Counters {
    honest: AtomicU64,
    refused: AtomicU64,
    exact: AtomicU64,
    over_admitted: AtomicU64,
    attacks: AtomicU64,
    reloads: AtomicU64,
    /// How long honest requests took, in microseconds, since the last row of the table.
    latencies: Mutex<Vec<u64>>,
}

/// A server under attack.
struct HostileRun {
    name: &'static str,
    program: Program,
    files_before: usize,
    counters: Counters,
    has_ended: AtomicBool,
}

/// Ends the load when it is dropped: a check that fails in one thread ends the others.
struct EndOnDrop<'a>(&'a AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl HostileRun {
    /// Starts a server, and exhausts the keys that are watched.
    fn start(name: &'static str, arguments: &[&str]) -> Self {
        let config = write_config(name, 0);
        let program = Program::start(&[&["--config", &*config], arguments].concat());
        let mut probes = Probe::on_every_port(&program);
        for (limit, key) in exact_keys() {
            let probe = &mut probes[0];
            let admitted = (0..2 * EXACT_QUOTA).filter(|_| probe.ask(limit, &key).is_allowed()).count() as u64;
            assert_eq!(admitted, EXACT_QUOTA, "{limit}, {key}");
        }
        for Probe { port, .. } in &probes {
            let request = json!({ "limit": honest_limit(port), "key": "honest", "cost": HONEST_USED });
            let answer = reqwest::blocking::Client::new().post(url(&program, "/v1/limit")).json(&request).send();
            assert_eq!(answer.expect("an answer").status(), 200);
        }
        let files_before = open_files(&program);
        let (counters, has_ended) = (Counters::default(), AtomicBool::new(false));
        HostileRun { name, program, files_before, counters, has_ended }
    }

    /// Attacks it for the configured time. Afterwards its files are closed, its memory has not grown on and on, and no exhausted
    /// key was admitted.
    fn attack(&self) {
        let configured = std::env::var("TIDEGATE_HOSTILE_SECONDS").ok();
        let seconds = configured.map_or(DEFAULT_SECONDS, |seconds| seconds.parse().expect("seconds"));
        println!("{}, {seconds} s, {ATTACKERS} attackers", self.name);
        let resident = thread::scope(|scope| {
            let _end = self.end_on_drop();
            for seed in 0..ATTACKERS {
                scope.spawn(move || self.attack_from_seed(seed));
            }
            for probe in Probe::on_every_port(&self.program) {
                scope.spawn(move || self.ask_honestly(probe));
            }
            scope.spawn(|| self.watch_exhausted_keys());
            scope.spawn(|| self.reload());
            self.record(Duration::from_secs(seconds))
        });
        let Counters { honest, exact, over_admitted, attacks, reloads, .. } = &self.counters;
        let [honest, exact, over_admitted, attacks, reloads] =
            [honest, exact, over_admitted, attacks, reloads].map(|counter| counter.load(Ordering::Relaxed));
        assert!(honest > 0 && exact > 0 && attacks > 0, "{honest}, {exact}, {attacks}: all of them ran");
        assert_eq!(over_admitted, 0, "of {exact} requests for exhausted keys");
        assert_bounded(&resident);
        let are_closed = wait_until(|| open_files(&self.program) <= self.files_before + MAX_MORE_FILES);
        let files = (self.files_before, open_files(&self.program));
        assert!(are_closed, "{files:?} files were open before and after");
        println!("files before and after: {files:?}, reloads: {reloads}");
    }

    fn end_on_drop(&self) -> EndOnDrop<'_> {
        EndOnDrop(&self.has_ended)
    }

    fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }

    /// Prints a row of the table once in a while, until the end. Returns the resident memory of each row, in MiB.
    fn record(&self, time: Duration) -> Vec<u64> {
        println!(
            "{:>7} {:>7} {:>5} {:>5} {:>8} {:>7} {:>7} {:>8} {:>8} {:>9} {:>5} {:>8}",
            "seconds",
            "rss MiB",
            "peak",
            "files",
            "honest",
            "p50 ms",
            "p99 ms",
            "worst",
            "refused",
            "exact",
            "over",
            "attacks"
        );
        let (begin, period) = (Instant::now(), (time / ROWS).max(Duration::from_secs(1)));
        let mut resident = Vec::new();
        while begin.elapsed() < time && !self.has_ended() {
            thread::sleep(period.min(time.saturating_sub(begin.elapsed())));
            let [now, peak] = ["VmRSS", "VmHWM"].map(|which| memory_mib(&self.program, which));
            resident.push(now);
            assert!(peak < MAX_RESIDENT_MIB, "{peak} MiB");
            let latencies = self.counters.latencies.lock().unwrap_or_else(PoisonError::into_inner).split_off(0);
            let [p50, p99, worst] = quantiles(latencies, [0.5, 0.99, 1.0]);
            let counters = &self.counters;
            let [honest, refused, exact, over, attacks] =
                [&counters.honest, &counters.refused, &counters.exact, &counters.over_admitted, &counters.attacks]
                    .map(|counter| counter.load(Ordering::Relaxed));
            println!(
                "{:>7} {now:>7} {peak:>5} {:>5} {honest:>8} {p50:>7.2} {p99:>7.2} {worst:>8.2} {refused:>8} {exact:>9} {over:>5} {attacks:>8}",
                begin.elapsed().as_secs(),
                open_files(&self.program),
            );
        }
        resident
    }

    fn attack_from_seed(&self, seed: u64) {
        let _end = self.end_on_drop();
        let (target, mut random) = (Target::new(&self.program), Random::new(seed));
        while !self.has_ended() {
            attacks::attack(&target, &mut random);
            self.counters.attacks.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Asks for one key of a limit of its own, again and again.
    fn ask_honestly(&self, mut probe: Probe) {
        let _end = self.end_on_drop();
        let (limit, mut most) = (honest_limit(probe.port), HONEST_QUOTA - HONEST_USED);
        while !self.has_ended() {
            thread::sleep(HONEST_PAUSE);
            let begin = Instant::now();
            let answer = probe.ask(&limit, "honest");
            let micros = begin.elapsed().as_micros() as u64;
            self.counters.latencies.lock().unwrap_or_else(PoisonError::into_inner).push(micros);
            self.counters.honest.fetch_add(1, Ordering::Relaxed);
            match answer {
                Answer::Allowed(left) => {
                    assert!(left < most, "{limit}: {left} are left, after {most}");
                    most = left;
                }
                Answer::Denied | Answer::Failed => {
                    self.counters.refused.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }

    fn watch_exhausted_keys(&self) {
        let _end = self.end_on_drop();
        let (mut probes, mut random) = (Probe::on_every_port(&self.program), Random::new(ATTACKERS));
        while !self.has_ended() {
            for (limit, key) in exact_keys() {
                let probe = &mut probes[random.below(3) as usize];
                // Only limits of its rules are there over gRPC.
                let limit = if probe.port == "grpc" { "shop.exact" } else { limit };
                if probe.ask(limit, &key).is_allowed() {
                    self.counters.over_admitted.fetch_add(1, Ordering::Relaxed);
                }
                self.counters.exact.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Changes the config once in a while.
    fn reload(&self) {
        let _end = self.end_on_drop();
        for turn in 1.. {
            for _ in 0..10 {
                if self.has_ended() {
                    return;
                }
                thread::sleep(Duration::from_millis(100));
            }
            write_config(self.name, turn);
            self.program.signal("HUP");
            self.counters.reloads.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Asserts that resident memory, in MiB at each row of the table, does not grow on and on.
fn assert_bounded(resident: &[u64]) {
    let quarter = resident.len() / 4;
    if quarter > 0 {
        let second = resident[quarter..2 * quarter].iter().max().copied().unwrap_or(0);
        let last = resident[resident.len() - quarter..].iter().min().copied().unwrap_or(0);
        assert!(last <= second + MAX_GROWTH_MIB, "{resident:?} MiB");
    }
}

fn open_files(program: &Program) -> usize {
    fs::read_dir(format!("/proc/{}/fd", program.id())).expect("it runs").count()
}

/// Returns quantiles of times in microseconds, as milliseconds.
fn quantiles<const N: usize>(mut micros: Vec<u64>, shares: [f64; N]) -> [f64; N] {
    micros.sort_unstable();
    shares.map(|share| {
        let index = (micros.len().saturating_sub(1) as f64 * share) as usize;
        micros.get(index).map_or(0.0, |micros| *micros as f64 / 1e3)
    })
}
