//! A process that is killed in the middle of it gives nothing back.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use tidegate::{Limiter, MAX_PERIOD, Quota};
use tokio::task::JoinSet;

use crate::support::{builder, run, unique, variable};

/// Set for the process that is killed.
const CHILD: &str = "TIDEGATE_TEST_KILLED";

/// How often, how many ask at once in it, and after how many admissions at the earliest.
const ROUNDS: u64 = 5;
const TASKS: u64 = 8;
const BEFORE: u64 = 150;

/// Enough for all rounds, and nothing comes back.
const PLENTY: u64 = 50_000;

const LIMITS: [&str; 4] = ["bucket", "fixed", "sliding", "log"];

/// On the server as it is: a commit waits for the disk.
fn limiter(table: &str) -> Limiter {
    let quotas = [Quota::token_bucket, Quota::fixed_window, Quota::sliding_window, Quota::sliding_log];
    let limits = LIMITS.into_iter().zip(quotas.map(|quota| quota(PLENTY, MAX_PERIOD).unwrap()));
    let store = run(builder(table).connect(&variable("TIDEGATE_POSTGRES_URL"))).unwrap();
    Limiter::builder().limits(limits).store(store).build().unwrap()
}

#[test]
fn a_killed_process_gives_nothing_back() {
    if let Ok(table) = std::env::var(CHILD) {
        return take_for_ever(&limiter(&table));
    }
    let table = unique("killed");
    let mut admitted = [0; LIMITS.len()];
    for round in 1..=ROUNDS {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["killed::a_killed_process_gives_nothing_back", "--exact", "--nocapture"])
            .env(CHILD, &table)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut seen = 0;
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            if let Some(limit) = line.unwrap().strip_prefix("admitted ") {
                admitted[limit.parse::<usize>().unwrap()] += 1;
                seen += 1;
                if seen == BEFORE + 31 * round {
                    child.kill().unwrap(); // SIGKILL; what it has said until now is still read
                }
            }
        }
        assert!(!child.wait().unwrap().success(), "it was killed");
        let limiter = limiter(&table);
        for (limit, admitted) in LIMITS.into_iter().zip(&mut admitted) {
            let remaining = run(limiter.check(limit, "everybody").into_future()).unwrap().remaining();
            let taken = PLENTY - remaining;
            // What it was told is spent, and what it was about to be told, one in each task at most, may be.
            assert!((*admitted..=*admitted + TASKS).contains(&taken), "{limit}: {taken} of {admitted}");
            *admitted = taken;
        }
    }
}

/// Takes, and says so after each answer, until it is killed.
fn take_for_ever(limiter: &Limiter) {
    run(async {
        let mut tasks = JoinSet::new();
        for task in 0..TASKS {
            let limiter = limiter.clone();
            tasks.spawn(async move {
                for index in (0..LIMITS.len()).cycle().skip(task as usize) {
                    assert!(limiter.limit(LIMITS[index], "everybody").await.unwrap().allowed());
                    // One write, so that a line is whole or not there.
                    std::io::stdout().write_all(format!("admitted {index}\n").as_bytes()).unwrap();
                }
            });
        }
        while let Some(done) = tasks.join_next().await {
            done.unwrap();
        }
    });
}
