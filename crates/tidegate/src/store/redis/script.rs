//! Scripts, put together from their parts, and how one is run.

use std::sync::LazyLock;

use redis::{Cmd, ErrorKind, RedisError, ServerErrorKind, Value};
use tidegate_core::Algorithm;

use super::Connection;

const COMMON: &str = include_str!("lua/common.lua");
const WIDE_NUMBERS: &str = include_str!("lua/wide_numbers.lua");
const WINDOWS: &str = include_str!("lua/windows.lua");
const TOKEN_BUCKET: &str = include_str!("lua/token_bucket.lua");
const FIXED_WINDOW: &str = include_str!("lua/fixed_window.lua");
const SLIDING_WINDOW: &str = include_str!("lua/sliding_window.lua");
const SLIDING_LOG: &str = include_str!("lua/sliding_log.lua");
const SINGLE: &str = include_str!("lua/single.lua");

/// The scripts that step one key, by algorithm.
static TOKEN_BUCKET_STEP: LazyLock<Script> =
    LazyLock::new(|| single_key_script(&[WIDE_NUMBERS, TOKEN_BUCKET], "token_bucket"));
static FIXED_WINDOW_STEP: LazyLock<Script> =
    LazyLock::new(|| single_key_script(&[WINDOWS, FIXED_WINDOW], "fixed_window"));
static SLIDING_WINDOW_STEP: LazyLock<Script> =
    LazyLock::new(|| single_key_script(&[WIDE_NUMBERS, WINDOWS, SLIDING_WINDOW], "sliding_window"));
static SLIDING_LOG_STEP: LazyLock<Script> = LazyLock::new(|| single_key_script(&[SLIDING_LOG], "sliding_log"));

/// The script that reads one key and the time.
pub(super) static READ: LazyLock<Script> = LazyLock::new(|| Script::new(&[COMMON, include_str!("lua/read.lua")]));

/// The script of joint decisions: several keys, all or nothing.
pub(super) static JOINT: LazyLock<Script> = LazyLock::new(|| multi_key_script(include_str!("lua/joint.lua")));

/// The script of a batch: several independent operations.
pub(super) static BATCH: LazyLock<Script> = LazyLock::new(|| multi_key_script(include_str!("lua/batch.lua")));

/// The script of one operation on the leases of one key.
pub(super) static LEASES: LazyLock<Script> = LazyLock::new(|| Script::new(&[COMMON, include_str!("lua/leases.lua")]));

/// The script that steps a state of this algorithm.
pub(super) fn step_script(algorithm: Algorithm) -> &'static Script {
    match algorithm {
        Algorithm::TokenBucket => &TOKEN_BUCKET_STEP,
        Algorithm::FixedWindow => &FIXED_WINDOW_STEP,
        Algorithm::SlidingWindow => &SLIDING_WINDOW_STEP,
        _ => &SLIDING_LOG_STEP,
    }
}

fn single_key_script(parts: &[&str], name: &str) -> Script {
    let step = format!("local step = {name}\n");
    Script::new(&[&[COMMON], parts, &[&*step, SINGLE]].concat())
}

fn multi_key_script(body: &str) -> Script {
    Script::new(&[COMMON, WIDE_NUMBERS, WINDOWS, TOKEN_BUCKET, FIXED_WINDOW, SLIDING_WINDOW, SLIDING_LOG, body])
}

/// A script, and the hash by which a server knows it.
pub(super) struct Script {
    source: String,
    hash: String,
}

impl Script {
    fn new(parts: &[&str]) -> Self {
        let source = parts.concat();
        let hash = redis::Script::new(&source).get_hash().to_owned();
        Script { source, hash }
    }

    /// The command that runs it, by its hash.
    pub(super) fn command(&self, keys: &[&str], arguments: &[Vec<u8>]) -> Cmd {
        self.command_with("EVALSHA", &self.hash, keys, arguments)
    }

    /// Runs it on keys that live together; when the server does not know it, once more with its source, which makes it known. There is no third
    /// time. `on_reload` is called before the second.
    pub(super) async fn run(
        &self,
        connection: &impl Connection,
        keys: &[&str],
        arguments: &[Vec<u8>],
        on_reload: impl FnOnce(),
    ) -> Result<Value, RedisError> {
        let key = keys.first().copied().unwrap_or_default();
        match connection.send(key, &self.command(keys, arguments)).await {
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                on_reload();
                connection.send(key, &self.command_with("EVAL", &self.source, keys, arguments)).await
            }
            answer => answer,
        }
    }

    fn command_with(&self, verb: &str, script: &str, keys: &[&str], arguments: &[Vec<u8>]) -> Cmd {
        let mut command = redis::cmd(verb);
        command.arg(script).arg(keys.len()).arg(keys);
        for argument in arguments {
            command.arg(&**argument);
        }
        command
    }
}
