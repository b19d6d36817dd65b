//! The cost of a decision for the Redis server: script time as the server reports it, and memory per key.

use std::time::Duration;

use redis::{Client, Script, Value};
use tidegate::{Quota, hours, millis, seconds};

use super::Server;
use super::calls::{CALLS, KeySet, ScriptCalls};
use crate::server_load::KEYS;

/// Rounds. We report the best one: noise only ever adds time.
const ROUNDS: usize = 25;

/// The cases: a name, the keys, whether they are allowed, and the quota as a capacity and the time to refill one unit.
const CASES: [(&str, KeySet, bool, u32, Duration); 4] = [
    ("allowed, refilling", KeySet::Known, true, 1_000_000, millis(1)),
    ("allowed, used up", KeySet::Known, true, 1_000_000, seconds(2)),
    ("allowed, a new key", KeySet::New, true, 1_000_000, seconds(2)),
    ("denied", KeySet::Known, false, 1, hours(1)),
];

pub(super) fn run(server: &Server) {
    println!(
        "\nMicroseconds of the server for a call of the script (INFO commandstats), the best of {ROUNDS} rounds of"
    );
    println!(
        "{CALLS} calls about {KEYS} keys, and how many times longer the naive script takes (TIME, HMGET, HMSET, PEXPIRE);"
    );
    println!(
        "and the bytes for a key (MEMORY USAGE). A key that refills between calls keeps its TTL. An exhausted key gets a new"
    );
    println!("TTL now and then, and a new key always does: each call has a new key.\n");
    println!(
        "{:<18} {:>11} {:>16} {:>15} {:>16}",
        "answer", "tidegate us", "naive us", "tidegate bytes", "naive bytes"
    );
    for case in CASES {
        row(server, case);
    }
}

fn row(server: &Server, (name, keys, allowed, capacity, every): (&str, KeySet, bool, u32, Duration)) {
    let mut connection = Client::open(&*server.url).and_then(|client| client.get_connection()).expect("a connection");
    let quota = Quota::token_bucket(capacity.into(), every * capacity).expect("a valid quota");
    server.load(&quota);
    let limit = name.replace([',', ' '], "-");
    let ours = |key: &str| server.decision(&limit, key, &quota);

    let script = Script::new(include_str!("naive.lua"));
    script.load(&mut connection).expect("the server takes it");
    let naive = |key: &str| {
        let mut command = redis::cmd("EVALSHA");
        command.arg(script.get_hash()).arg(1).arg(format!("{}|naive-{limit}|{key}", server.prefix));
        command.arg(capacity).arg(1.0 / every.as_secs_f64()).arg(1);
        command
    };

    let contenders = [ScriptCalls::new(&ours, keys, has_written), ScriptCalls::new(&naive, keys, begins_with_one)];
    let mut best = [f64::MAX; 2];
    for _ in 0..ROUNDS {
        let spent = contenders.each_ref().map(|calls| calls.round(&mut connection, allowed));
        best = std::array::from_fn(|index| best[index].min(spent[index]));
    }
    let bytes = contenders.each_ref().map(|calls| calls.memory(&mut connection));
    println!(
        "{:<18} {:>11.2} {:>16} {:>15.0} {:>16}",
        name,
        best[0],
        format!("{:.2} ({:.2}x)", best[1], best[1] / best[0]),
        bytes[0],
        format!("{:.0} ({:.2}x)", bytes[1], bytes[1] / bytes[0])
    );
}

/// Returns whether the script has written. Its answer is the time in eight bytes, followed by that flag.
fn has_written(answer: &Value) -> bool {
    matches!(answer, Value::BulkString(bytes) if bytes.get(8) == Some(&1))
}

fn begins_with_one(answer: &Value) -> bool {
    matches!(answer, Value::Array(values) if values.first() == Some(&Value::Int(1)))
}
