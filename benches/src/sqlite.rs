//! Decisions per second of the SQLite store, compared with a bare upsert on the same disk.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use rusqlite::Connection;
use tidegate::sqlite::{SqliteStore, Synchronous};
use tidegate::store::{Op, Request, Scope};
use tidegate::{Cost, Key, MAX_COUNT, MAX_PERIOD, OnStoreError, Quota, Store, seconds};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

use crate::workload::{Random, key_text, median, median_ratio, next_seed};

/// The number of keys. Each is requested equally often, except in the case of the hot key.
const KEYS: u64 = 10_000;
/// Rounds: many short ones.
const ROUNDS: usize = 15;
/// The threads of the runtime. The store has two of its own.
const THREADS: usize = 1;

pub(crate) fn run() {
    println!(
        "\nDecisions a second in an SQLite file, threads of the runtime: {THREADS}, the median of {ROUNDS} rounds, and the ratio to"
    );
    println!("a bare upsert (prepared, WAL, a commit for each, on the caller's own thread) and to that upsert");
    println!("through a thread, as an async program must do it (tokio's spawn_blocking).");
    for synchronous in [Synchronous::Normal, Synchronous::Full] {
        measure(synchronous);
    }
}

/// One measurement: its calls, its store and its concurrency.
struct Case {
    name: &'static str,
    hot: bool,
    allowed: bool,
    concurrency: u64,
}

fn measure(synchronous: Synchronous) {
    let folder = TempFolder::new();
    let runtime = Builder::new_multi_thread().worker_threads(THREADS).build().expect("a runtime");
    let bare = Arc::new(Mutex::new(UpsertClient::new(&folder, synchronous)));
    let store = SqliteStore::builder().synchronous(synchronous).open(folder.0.join("tidegate.db")).expect("a file");
    let store = Arc::new(store);
    let draws = [("10,000 keys", false), ("one hot key", true)];
    let cases: Vec<Case> = draws
        .into_iter()
        .flat_map(|(name, hot)| [true, false].map(|allowed| (name, hot, allowed)))
        .flat_map(|(name, hot, allowed)| [1, 64, 512].map(|concurrency| Case { name, hot, allowed, concurrency }))
        .collect();
    // Waiting for the disk is slow.
    let calls = if synchronous == Synchronous::Full { 1_000 } else { 10_000 };
    runtime.block_on(exhaust(&store));
    let (mut upserts, mut hopped, mut decided) = (Vec::new(), Vec::new(), vec![Vec::new(); cases.len()]);
    for _ in 0..ROUNDS {
        upserts.push(measure_rate(|| bare.lock().expect("no panic").upserts(calls)));
        hopped.push(measure_rate(|| runtime.block_on(upserts_on_a_thread(&bare, calls))));
        for (case, rates) in cases.iter().zip(&mut decided) {
            let calls = if case.concurrency == 1 { calls } else { 5 * calls };
            rates.push(measure_rate(|| decisions(&runtime, &store, case, calls)));
        }
    }
    println!("\nsynchronous = {synchronous:?}");
    let line = |name: &str, rates: &[f64]| format!("{name:<44} {:>9.0}", median(rates.iter().copied()));
    println!("{}", line("bare upsert", &upserts));
    println!("{} {:>7.2}x", line("through a thread", &hopped), median_ratio(&hopped, &upserts));
    for (case, rates) in cases.iter().zip(&decided) {
        let outcome = if case.allowed { "allowed" } else { "denied" };
        let name = format!("tidegate, {}, {outcome}, {} at once", case.name, case.concurrency);
        println!(
            "{} {:>7.2}x {:>7.2}x",
            line(&name, rates),
            median_ratio(rates, &upserts),
            median_ratio(rates, &hopped)
        );
    }
}

/// Returns the calls a second. `work` returns the number of calls.
fn measure_rate(work: impl FnOnce() -> u64) -> f64 {
    let start = Instant::now();
    let calls = work();
    calls as f64 / start.elapsed().as_secs_f64()
}

/// SQLite alone, with a table of the same shape except for the index.
struct UpsertClient {
    connection: Connection,
    random: Random,
}

impl UpsertClient {
    fn new(folder: &TempFolder, synchronous: Synchronous) -> Self {
        let connection = Connection::open(folder.0.join("bare.db")).expect("a file");
        let level = if synchronous == Synchronous::Full { "FULL" } else { "NORMAL" };
        let set_up = format!(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = {level};
             CREATE TABLE bare (key BLOB PRIMARY KEY NOT NULL, value BLOB NOT NULL) STRICT, WITHOUT ROWID"
        );
        connection.execute_batch(&set_up).expect("a table");
        UpsertClient { connection, random: Random(1) }
    }

    fn upserts(&mut self, calls: u64) -> u64 {
        let upsert =
            "INSERT INTO bare (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = excluded.value";
        let mut upsert = self.connection.prepare_cached(upsert).expect("a statement");
        for _ in 0..calls {
            let (key, value) = (key(&mut self.random, false), [self.random.next(); 4].map(u64::to_le_bytes));
            upsert.execute((key.as_bytes(), value.as_flattened())).expect("written");
        }
        calls
    }
}

/// Makes the upserts one after the other, through the runtime's threads for blocking calls.
async fn upserts_on_a_thread(bare: &Arc<Mutex<UpsertClient>>, calls: u64) -> u64 {
    for _ in 0..calls {
        let bare = Arc::clone(bare);
        let done = tokio::task::spawn_blocking(move || bare.lock().expect("no panic").upserts(1));
        done.await.expect("no panic");
    }
    calls
}

/// Returns a quota of one for each key, which is practically never refilled.
fn exhausted_limit() -> (Scope, Quota) {
    (Scope::new("bench", "denied"), Quota::token_bucket(1, MAX_PERIOD).expect("a valid quota"))
}

/// Uses up every key that must be denied.
async fn exhaust(store: &Arc<SqliteStore>) {
    let mut tasks = JoinSet::new();
    for number in 0..KEYS {
        let store = Arc::clone(store);
        tasks.spawn(async move {
            let (scope, quota) = exhausted_limit();
            assert!(limit(&store, &scope, &quota, &key_text(number)).await);
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.expect("no panic");
    }
}

/// Returns whether the request is allowed.
async fn limit(store: &SqliteStore, scope: &Scope, quota: &Quota, key: &str) -> bool {
    let (op, on_store_error) = (Op::Limit(Cost::ONE), OnStoreError::default());
    let request = Request { scope, key: &Key::from(key), quota, op, on_store_error };
    store.apply(&request).await.expect("the store decides").allowed()
}

fn decisions(runtime: &Runtime, store: &Arc<SqliteStore>, case: &Case, calls: u64) -> u64 {
    let (scope, quota) = match case.allowed {
        // A large quota for all keys.
        true => {
            let quota = Quota::token_bucket(MAX_COUNT, seconds(1_000));
            (Scope::new("bench", "allowed"), quota.expect("a valid quota"))
        }
        false => exhausted_limit(),
    };
    let (allowed, hot, share) = (case.allowed, case.hot, calls.div_ceil(case.concurrency));
    runtime.block_on(async {
        let mut tasks = JoinSet::new();
        for _ in 0..case.concurrency {
            let (store, scope, mut random) = (Arc::clone(store), scope.clone(), Random(next_seed()));
            tasks.spawn(async move {
                for _ in 0..share {
                    assert_eq!(limit(&store, &scope, &quota, &key(&mut random, hot)).await, allowed);
                }
            });
        }
        while let Some(done) = tasks.join_next().await {
            done.expect("no panic");
        }
    });
    share * case.concurrency
}

fn key(random: &mut Random, hot: bool) -> String {
    key_text(if hot { 7 } else { random.next() % KEYS })
}

/// A folder that is removed at the end.
struct TempFolder(PathBuf);

impl TempFolder {
    fn new() -> Self {
        let path = std::env::temp_dir().join(format!("tidegate-bench-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        TempFolder(path)
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
