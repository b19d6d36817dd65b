//! The latency of one WebSocket while others flood the server, compared with the latency without a flood.

mod clients;
mod server;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

pub(crate) use clients::flood;
use clients::{Latency, measure};
pub(crate) use server::serve;

/// Rounds. We report the best one: noise only ever adds time.
const ROUNDS: usize = 9;

/// The load beside the measured connection.
const BACKGROUND_LOADS: [(&str, Option<&str>); 4] = [
    ("alone", None),
    ("a flood that reads its responses", Some("reads")),
    ("a flood that does not read", Some("deaf")),
    ("a flood of malformed messages", Some("noise")),
];

pub(crate) fn run() {
    println!(
        "\nThe latency of a call over a WebSocket in microseconds, on a connection of its own. Beside it, another connection"
    );
    println!(
        "sends as fast as it can, at the lowest priority, to a limit of 10 a second on Redis. The best of {ROUNDS} rounds of each."
    );
    let (server, address) = start(&["ws", "serve"]);
    let mut best = [Latency::WORST; BACKGROUND_LOADS.len()];
    for _ in 0..ROUNDS {
        for ((_, kind), best) in BACKGROUND_LOADS.iter().zip(&mut best) {
            // The flood ends with the round.
            let _flood = kind.map(|kind| start(&["ws", "flood", &address, kind, "1"]));
            *best = best.min(measure(&address));
        }
    }
    println!("\n{:<42} {:>9} {:>9} {:>9} {:>9}", "", "median", "of alone", "p99", "of alone");
    for ((name, _), Latency { median, p99 }) in BACKGROUND_LOADS.iter().zip(best) {
        let alone = best[0];
        println!("{name:<42} {median:>9.1} {:>8.2}x {p99:>9.1} {:>8.2}x", median / alone.median, p99 / alone.p99);
    }
    memory(&server, &address);
}

/// Prints the server's memory while 200 connections send as fast as they can.
fn memory(server: &ChildGuard, address: &str) {
    println!("\nMemory of that server while 200 connections send as fast as they can:");
    println!("{:<42} {:>9.1} MiB", "no connection", resident(server));
    let _flood = start(&["ws", "flood", address, "reads", "200"]);
    for second in 1..=8_u32 {
        std::thread::sleep(Duration::from_secs(1));
        if second.is_power_of_two() {
            println!("{:<42} {:>9.1} MiB", format!("after {second} s"), resident(server));
        }
    }
}

/// Returns the resident memory, in MiB.
fn resident(ChildGuard(child): &ChildGuard) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("resident memory");
    line.trim().trim_end_matches(" kB").parse::<f64>().expect("a number") / 1024.0
}

/// Starts a process of this program. It runs until the guard is dropped. Returns its first line, too.
fn start(arguments: &[&str]) -> (ChildGuard, String) {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    let mut child = command.args(arguments).stdout(Stdio::piped()).spawn().expect("a process");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
    (ChildGuard(child), line.trim().to_owned())
}

struct ChildGuard(Child);

impl Drop for ChildGuard {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
