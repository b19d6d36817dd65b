//! `redis-benchmark` with the decision script as its command.
//!
//! The program cuts an argument at a byte of 0, on the command line and from the standard input alike, and a decision's
//! last argument has such bytes. So the script it runs has that argument in its first line, and is passed as many other
//! bytes instead: the same length of request, the same work, and one table more to make.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use redis::{Client, Cmd, Script};
use tidegate_servers::required_env;

use super::{Server, arguments};
use crate::redis_benchmark::{Load, measure_rate};
use crate::server_load::KEYS;

/// What the script of a token bucket is put together from.
const PARTS: [&str; 5] = [
    include_str!("../../../crates/tidegate/src/store/redis/lua/common.lua"),
    include_str!("../../../crates/tidegate/src/store/redis/lua/wide_numbers.lua"),
    include_str!("../../../crates/tidegate/src/store/redis/lua/token_bucket.lua"),
    "local step = token_bucket\n",
    include_str!("../../../crates/tidegate/src/store/redis/lua/single.lua"),
];

/// The program, and what it sends.
pub(super) struct RedisBenchmark {
    path: String,
    url: String,
    arguments: Vec<Vec<u8>>,
}

impl RedisBenchmark {
    /// `command` is about the key `__rand_int__`, for which the program puts a number.
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

    /// What is run, as one would type it.
    pub(super) fn line(&self) -> String {
        let shown: Vec<String> = self.arguments.iter().map(|argument| argument.escape_ascii().to_string()).collect();
        format!("redis-benchmark -r {KEYS} {}", shown.join(" "))
    }

    /// How many a second: from so many connections, each with so many requests on their way at a time.
    pub(super) fn rate(&self, connections: u64, pipelined: u64, requests: u64) -> f64 {
        let load = Load { keys: KEYS, connections, pipelined, requests };
        measure_rate(&self.path, &self.url, load, self.arguments.iter().map(|argument| OsStr::from_bytes(argument)))
    }
}
