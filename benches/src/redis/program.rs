//! `redis-benchmark` with the decision script as its command.
//!
//! `redis-benchmark` cuts an argument at a zero byte, on the command line and on the standard input. The last argument
//! of a decision has zero bytes. So the script sets that argument in its first line, and gets as many other bytes
//! instead. The request has the same length and the server does the same work, except for one more table.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use redis::{Client, Cmd, Script};
use tidegate_servers::required_env;

use super::{Server, arguments};
use crate::redis_benchmark::{Load, measure_rate};
use crate::server_load::KEYS;

/// The sources of the script for a token bucket.
const PARTS: [&str; 5] = [
    include_str!("../../../crates/tidegate/src/store/redis/lua/common.lua"),
    include_str!("../../../crates/tidegate/src/store/redis/lua/wide_numbers.lua"),
    include_str!("../../../crates/tidegate/src/store/redis/lua/token_bucket.lua"),
    "local step = token_bucket\n",
    include_str!("../../../crates/tidegate/src/store/redis/lua/single.lua"),
];

/// The program with its arguments.
pub(super) struct RedisBenchmark {
    path: String,
    url: String,
    arguments: Vec<Vec<u8>>,
}

impl RedisBenchmark {
    /// Creates the program for `command`. It replaces the key `__rand_int__` by a number.
    pub(super) fn new(server: &Server, command: &Cmd) -> Self {
        let [verb, hash, one, key, quota, numbers] =
            arguments(command).try_into().expect("EVALSHA, the hash, 1, the key, the quota and the numbers");
        let source = PARTS.concat();
        assert_eq!(Script::new(&source).get_hash().as_bytes(), hash, "the script is put together in another way");
        let bytes: String = numbers.iter().map(|byte| format!("\\{byte:03}")).collect();
        let script = Script::new(&format!("local ARGV = {{ ARGV[1], '{bytes}' }}\n{source}"));
        let mut connection = Client::open(&*server.url).and_then(|client| client.get_connection()).expect("a server");
        let hash = script.load(&mut connection).expect("the server takes it").into_bytes();
        let arguments = vec![verb, hash, one, key, quota, vec![b'x'; numbers.len()]];
        RedisBenchmark { path: required_env("TIDEGATE_REDIS_BENCHMARK"), url: server.url.clone(), arguments }
    }

    /// Returns the command line, as one would type it.
    pub(super) fn line(&self) -> String {
        let shown: Vec<String> = self.arguments.iter().map(|argument| argument.escape_ascii().to_string()).collect();
        format!("redis-benchmark -r {KEYS} {}", shown.join(" "))
    }

    /// Returns the rate a second, with that many connections and that many requests in flight on each.
    pub(super) fn rate(&self, connections: u64, pipelined: u64, requests: u64) -> f64 {
        let load = Load { keys: KEYS, connections, pipelined, requests };
        measure_rate(&self.path, &self.url, load, self.arguments.iter().map(|argument| OsStr::from_bytes(argument)))
    }
}
