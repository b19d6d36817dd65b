//! The benchmark of the Redis protocol, with `redis-benchmark` as the client.

use std::path::Path;
use std::process::Command;

use redis::Client;
use tidegate_servers::{Program, required_env};

use super::contest::{Contestant, LoadResult, compare};
use super::{KEYS, LARGE_QUOTA, start_throttlecrabs, start_tidegates};
use crate::redis_benchmark::{Load, measure_rate};

const SINGLE: Load = Load { keys: KEYS, connections: 50, pipelined: 1, requests: 60_000 };
const PIPELINED: Load = Load { keys: KEYS, connections: 50, pipelined: 16, requests: 500_000 };

pub(super) fn run() {
    let program = required_env("TIDEGATE_REDIS_BENCHMARK");
    let ([ours, many], [crab, single], redis) =
        (start_tidegates("resp", &[], "2"), start_throttlecrabs("redis"), redis());
    let [cl_throttle, throttle] = ["CL.THROTTLE", "THROTTLE"].map(throttling);
    let range: Vec<String> = ["LRANGE", "five", "0", "-1"].map(str::to_owned).into();
    // The first field has the opposite meaning in throttlecrab's command.
    assert_eq!(first(&ours, &cl_throttle), 0, "tidegate allows it");
    assert_eq!(first(&crab, &throttle), 1, "throttlecrab allows it");
    fill(&redis);

    let contestant = |name, server, load: Load, arguments| {
        let (program, url) = (&program, url(server));
        let ask = move || {
            let per_second = measure_rate(program, &url, load, arguments);
            LoadResult { requests: load.requests as f64, per_second }
        };
        Contestant { name, server, run_load: Box::new(ask) }
    };
    println!("\nThe Redis protocol, redis-benchmark -c {}; expected: 1.3x of throttlecrab", SINGLE.connections);
    compare(&[
        contestant("tidegate, CL.THROTTLE", &ours, SINGLE, &cl_throttle),
        contestant("tidegate, a thread for each core", &many, SINGLE, &cl_throttle),
        contestant("throttlecrab, THROTTLE", &crab, SINGLE, &throttle),
        contestant("throttlecrab with one thread", &single, SINGLE, &throttle),
        contestant("redis-server, LRANGE of five", &redis, SINGLE, &range),
    ]);
    let Load { connections, pipelined, .. } = PIPELINED;
    println!(
        "\nThe Redis protocol pipelined, -c {connections} -P {pipelined}, with replies of equal size; expected: 0.6x of Redis"
    );
    compare(&[
        contestant("tidegate, CL.THROTTLE", &ours, PIPELINED, &cl_throttle),
        contestant("redis-server, LRANGE of five", &redis, PIPELINED, &range),
    ]);
}

fn throttling(verb: &str) -> Vec<String> {
    let large_quota = LARGE_QUOTA.to_string();
    [verb, "key:__rand_int__", &large_quota, &large_quota, "60"].map(str::to_owned).into()
}

/// Starts a Redis without persistence.
fn redis() -> Program {
    let program = required_env("TIDEGATE_REDIS_SERVER");
    let command = |port: u16, _: &Path| {
        let mut command = Command::new(&program);
        command.args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--save", "", "--appendonly", "no"]);
        command
    };
    Program::start("redis", command).expect("redis-server")
}

/// Creates a list of five, whose reply is as long as a decision.
fn fill(redis: &Program) {
    let mut connection = connection(redis);
    redis::cmd("RPUSH").arg("five").arg(&[1, 2, 3, 4, 5]).exec(&mut connection).expect("redis-server answers");
}

/// Returns the first number of the answer.
fn first(server: &Program, arguments: &[String]) -> i64 {
    let mut command = redis::Cmd::new();
    command.arg(arguments);
    let answer: Vec<i64> = command.query(&mut connection(server)).expect("an answer");
    answer[0]
}

fn connection(server: &Program) -> redis::Connection {
    Client::open(url(server)).and_then(|client| client.get_connection()).expect("a connection")
}

fn url(server: &Program) -> String {
    format!("redis://127.0.0.1:{}", server.port())
}
