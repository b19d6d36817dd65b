//! Resident memory per key, measured for each limiter in a process of its own.

use std::process::Command;
use std::time::Duration;

use crate::peers::{Governor, HandwrittenLimiter, Limit, Peer, Tidegate};
use crate::workload::key_text;

const PEERS: [&str; 3] = ["tidegate", "governor", "DashMap+Mutex"];

pub(crate) fn run() {
    println!("\nResident bytes for a live token-bucket key of 24 bytes, each peer in a process of its own.\n");
    println!("{:<12} {:>10} {:>10} {:>14}", "keys", PEERS[0], PEERS[1], PEERS[2]);
    for keys in ["1000000", "10000000"] {
        let bytes = PEERS.map(|peer| {
            let this = std::env::current_exe().expect("this program");
            let output = Command::new(this).args(["footprint", peer, keys]).output().expect("it starts");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        });
        println!("{:<12} {:>10} {:>10} {:>14}", keys, bytes[0], bytes[1], bytes[2]);
    }
}

/// Fills one peer with live keys and prints the bytes for each key.
pub(crate) fn measure(peer: &str, keys: &str) {
    let keys: u64 = keys.parse().expect("a number of keys");
    let limit = Limit { burst: 10, every: Duration::from_secs(3_600) };
    let before = resident();
    let filled: Box<dyn Peer<String>> = match peer {
        "tidegate" => Box::new(Tidegate::new(limit, keys as usize)),
        "governor" => Box::new(Governor::new(limit)),
        _ => Box::new(HandwrittenLimiter::new(limit)),
    };
    for number in 0..keys {
        assert!(filled.decide(&key_text(number)));
    }
    println!("{:.1}", (resident() - before) as f64 / keys as f64);
    // Every key is still known.
    for number in (0..keys).step_by(97) {
        assert!((0..9).all(|_| filled.decide(&key_text(number))) && !filled.decide(&key_text(number)), "{number}");
    }
}

pub(crate) fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux's own account of memory");
    let pages: u64 = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("the resident pages");
    pages * 4_096
}
