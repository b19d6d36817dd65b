//! The slowest decisions while ten million keys are inserted, in CPU time of the thread.

use std::process::Command;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::peers::{Governor, HandwrittenLimiter, Limit, Peer, Tidegate};
use crate::workload::key_text;

const PEERS: [&str; 3] = ["tidegate", "governor", "DashMap+Mutex"];
const KEYS: u64 = 10_000_000;

pub(crate) fn run() {
    println!("\nThe slowest decisions while {KEYS} keys are inserted, in the thread's CPU time.\n");
    for peer in PEERS {
        let this = std::env::current_exe().expect("this program");
        let output = Command::new(this).args(["pauses", peer]).output().expect("it starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        println!("{peer:<14} {}", String::from_utf8_lossy(&output.stdout).trim());
    }
}

/// Inserts keys into one peer and prints the slowest insertions.
pub(crate) fn measure(peer: &str) {
    let limit = Limit { burst: 10, every: Duration::from_secs(3_600) };
    let filled: Box<dyn Peer<String>> = match peer {
        "tidegate" => Box::new(Tidegate::new(limit, KEYS as usize)),
        "governor" => Box::new(Governor::new(limit)),
        _ => Box::new(HandwrittenLimiter::new(limit)),
    };
    let mut spent = Vec::with_capacity(KEYS as usize);
    for number in 0..KEYS {
        let key = key_text(number);
        let before = cpu_nanos();
        filled.decide(&key);
        spent.push((cpu_nanos() - before) as u32);
    }
    spent.sort_unstable();
    let at = |share: f64| f64::from(spent[((spent.len() - 1) as f64 * share) as usize]) / 1_000.0;
    println!("p50 {:.2} us, p99 {:.2} us, p99.99 {:.1} us, worst {:.1} us", at(0.5), at(0.99), at(0.9999), at(1.0));
}

fn cpu_nanos() -> u64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
