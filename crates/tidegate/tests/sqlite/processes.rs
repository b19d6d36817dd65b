//! Several processes, one file.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate::sqlite::SqliteStore;
use tidegate::{Limiter, MAX_PERIOD, Quota};
use tokio::task::JoinSet;

use crate::support::{Folder, myself, run};

const PROCESSES: u64 = 8;
/// Tasks in each.
const TASKS: u64 = 10;

/// Limits that bring nothing back while the test runs, how much each admits, and how often each is asked for.
const LIMITS: [(&str, u64, u64); 4] =
    [("bucket", 8_000, 24_000), ("fixed", 2_000, 8_000), ("sliding", 2_000, 8_000), ("log", 500, 4_000)];

/// Set for a process that is one of the eight.
const CHILD: &str = "TIDEGATE_TEST_FILE";

fn limiter(path: &str) -> Limiter {
    let [bucket, fixed, sliding, log] = LIMITS.map(|(_, admits, _)| admits);
    Limiter::builder()
        .limit("bucket", Quota::token_bucket(1, MAX_PERIOD).and_then(|quota| quota.capacity(bucket)).unwrap())
        .limit("fixed", Quota::fixed_window(fixed, MAX_PERIOD).unwrap())
        .limit("sliding", Quota::sliding_window(sliding, MAX_PERIOD).unwrap())
        .limit("log", Quota::sliding_log(log, MAX_PERIOD).unwrap())
        .store(SqliteStore::open(path).unwrap())
        .build()
        .unwrap()
}

#[test]
fn eight_processes_never_admit_one_too_many() {
    // The same test runs as each of the eight: there it only asks.
    if let Ok(path) = std::env::var(CHILD) {
        return ask(&limiter(&path));
    }
    // They make the file and the table themselves, all at once.
    let folder = Folder::new();
    let child = || myself("processes::eight_processes_never_admit_one_too_many", CHILD, folder.file());
    let children: Vec<_> = (0..PROCESSES).map(|_| Command::spawn(&mut child()).unwrap()).collect();
    let mut admitted = [0; LIMITS.len()];
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        let text = String::from_utf8(output.stdout).unwrap();
        let line = text.lines().find_map(|line| line.split_once("admitted ")).expect("what it was admitted").1;
        for (sum, part) in admitted.iter_mut().zip(line.split(' ')) {
            *sum += part.parse::<u64>().unwrap();
        }
    }
    // Not one too many, and not one too few.
    assert_eq!(admitted, LIMITS.map(|(_, admits, _)| admits));
    assert_eq!(folder.integrity(), "ok");
}

/// Asks as often as is one process's share, and says how often it was admitted.
#[allow(clippy::print_stdout)] // this is how it answers
fn ask(limiter: &Limiter) {
    let admitted = LIMITS.map(|(limit, _, asked)| {
        let count = Arc::new(AtomicU64::new(0));
        run(async {
            let mut tasks = JoinSet::new();
            for _ in 0..TASKS {
                let (limiter, count) = (limiter.clone(), Arc::clone(&count));
                tasks.spawn(async move {
                    for _ in 0..asked / PROCESSES / TASKS {
                        let allowed = limiter.limit(limit, "everybody").await.unwrap().allowed();
                        count.fetch_add(u64::from(allowed), Ordering::Relaxed);
                    }
                });
            }
            while let Some(done) = tasks.join_next().await {
                done.unwrap();
            }
        });
        count.load(Ordering::Relaxed).to_string()
    });
    println!("admitted {}", admitted.join(" "));
}
