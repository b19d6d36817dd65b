//! What is remembered: after a restart, and after a process was killed in the middle of it.

use std::io::{BufRead, BufReader, Write};

use tidegate::sqlite::{SqliteStore, Synchronous};
use tidegate::{Limiter, MAX_PERIOD, Quota, Store};
use tokio::task::JoinSet;

use crate::support::{CAPACITY, Folder, ask, left, limiter, myself, run};

#[test]
fn a_store_that_is_opened_again_remembers() {
    let folder = Folder::new();
    for spent in 0..CAPACITY {
        let store = folder.store();
        let limiter = limiter(&store);
        assert_eq!(left(&limiter, "alice"), CAPACITY - spent);
        assert!(ask(limiter.limit("a", "alice")).unwrap().allowed());
        // Whether it was closed or not.
        if spent % 2 == 0 {
            run(store.close());
        }
    }
    assert!(!ask(limiter(&folder.store()).limit("a", "alice")).unwrap().allowed());
}

#[test]
fn closing_leaves_one_file_behind() {
    let folder = Folder::new();
    let store = folder.store();
    ask(limiter(&store).limit("a", "alice")).unwrap();
    assert_eq!(folder.files(), ["limits.db", "limits.db-shm", "limits.db-wal"]);
    run(store.close());
    assert_eq!(folder.files(), ["limits.db"]);
}

/// Set for the process that is killed.
const CHILD: &str = "TIDEGATE_TEST_KILLED";

/// How often it is killed, how many ask at once in it, and after how many admissions it is killed at the earliest.
const ROUNDS: u64 = 8;
const TASKS: u64 = 16;
const BEFORE: u64 = 150;

/// Enough for all rounds, and nothing comes back.
const PLENTY: u64 = 50_000;

/// A limit of each algorithm.
const LIMITS: [&str; 4] = ["bucket", "fixed", "sliding", "log"];

fn limiter_of_each(store: SqliteStore) -> Limiter {
    let quotas = [Quota::token_bucket, Quota::fixed_window, Quota::sliding_window, Quota::sliding_log];
    let limits = LIMITS.into_iter().zip(quotas.map(|quota| quota(PLENTY, MAX_PERIOD).unwrap()));
    Limiter::builder().limits(limits).store(store).build().unwrap()
}

fn open(path: &str, synchronous: Synchronous) -> SqliteStore {
    SqliteStore::builder().synchronous(synchronous).open(path).unwrap()
}

#[test]
fn a_killed_process_gives_nothing_back_under_normal() {
    killed(Synchronous::Normal, "durability::a_killed_process_gives_nothing_back_under_normal");
}

#[test]
fn a_killed_process_gives_nothing_back_under_full() {
    killed(Synchronous::Full, "durability::a_killed_process_gives_nothing_back_under_full");
}

fn killed(synchronous: Synchronous, test: &str) {
    if let Ok(path) = std::env::var(CHILD) {
        return take_for_ever(&limiter_of_each(open(&path, synchronous)));
    }
    let folder = Folder::new();
    let mut admitted = [0; LIMITS.len()];
    for round in 1..=ROUNDS {
        let mut child = myself(test, CHILD, folder.file()).spawn().unwrap();
        let mut seen = 0;
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            // A line that the kill has cut off is not an admission that anybody was told of.
            let Some(limit) = line.unwrap().strip_prefix("admitted ").and_then(|limit| limit.parse::<usize>().ok())
            else {
                continue;
            };
            admitted[limit] += 1;
            seen += 1;
            // What it has written before it dies is still read.
            if seen == BEFORE + 37 * round {
                child.kill().unwrap();
            }
        }
        assert!(!child.wait().unwrap().success(), "it was killed");

        assert_eq!(folder.integrity(), "ok");
        let limiter = limiter_of_each(open(folder.file().to_str().unwrap(), synchronous));
        for (limit, admitted) in LIMITS.into_iter().zip(&admitted) {
            let left = ask(limiter.check(limit, "everybody")).unwrap().remaining();
            assert!(left <= PLENTY - admitted, "{limit}: {left} left after {admitted} in round {round}");
            // And nothing was taken that nobody asked for: what was on its way is lost at most.
            assert!(left >= PLENTY - admitted - round * TASKS, "{limit}: {left} left after {admitted}");
            assert!(ask(limiter.limit(limit, "somebody else")).unwrap().allowed());
        }
    }
}

/// Asks until it is killed, and says each admission when it has been told of it.
fn take_for_ever(limiter: &Limiter) {
    run(async {
        let mut tasks = JoinSet::new();
        for task in 0..TASKS as usize {
            let limiter = limiter.clone();
            tasks.spawn(async move {
                for limit in (0..LIMITS.len()).cycle().skip(task) {
                    assert!(limiter.limit(LIMITS[limit], "everybody").await.unwrap().allowed());
                    // In one piece, and past the test harness.
                    std::io::stdout().lock().write_all(format!("\nadmitted {limit}\n").as_bytes()).unwrap();
                }
            });
        }
        tasks.join_next().await.unwrap().unwrap();
    });
}
