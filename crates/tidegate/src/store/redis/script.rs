//! The scripts, put together from their parts, and how one is run.

use std::sync::LazyLock;

use redis::aio::ConnectionLike;
use redis::{Cmd, ErrorKind, RedisError, ServerErrorKind, Value};
use tidegate_core::Algorithm;

const COMMON: &str = include_str!("lua/common.lua");
const WIDE: &str = include_str!("lua/wide.lua");
const WINDOWS: &str = include_str!("lua/windows.lua");
const TOKEN_BUCKET: &str = include_str!("lua/token_bucket.lua");
const FIXED_WINDOW: &str = include_str!("lua/fixed_window.lua");
const SLIDING_WINDOW: &str = include_str!("lua/sliding_window.lua");
const SLIDING_LOG: &str = include_str!("lua/sliding_log.lua");
const ONE: &str = include_str!("lua/one.lua");

/// One operation on one key, by algorithm.
static TOKEN_BUCKET_STEP: LazyLock<Script> = LazyLock::new(|| one(&[WIDE, TOKEN_BUCKET], "token_bucket"));
static FIXED_WINDOW_STEP: LazyLock<Script> = LazyLock::new(|| one(&[WINDOWS, FIXED_WINDOW], "fixed_window"));
static SLIDING_WINDOW_STEP: LazyLock<Script> =
    LazyLock::new(|| one(&[WIDE, WINDOWS, SLIDING_WINDOW], "sliding_window"));
static SLIDING_LOG_STEP: LazyLock<Script> = LazyLock::new(|| one(&[SLIDING_LOG], "sliding_log"));

/// The stored value and the time.
pub(super) static LOOK: LazyLock<Script> = LazyLock::new(|| Script::new(&[COMMON, include_str!("lua/look.lua")]));

/// Several keys, all or nothing.
pub(super) static ALL: LazyLock<Script> = LazyLock::new(|| several(include_str!("lua/all.lua")));

/// Several keys, each on its own.
pub(super) static EACH: LazyLock<Script> = LazyLock::new(|| several(include_str!("lua/each.lua")));

/// One operation on the leases of one key.
pub(super) static LEASES: LazyLock<Script> = LazyLock::new(|| Script::new(&[COMMON, include_str!("lua/leases.lua")]));

pub(super) fn step(algorithm: Algorithm) -> &'static Script {
    match algorithm {
        Algorithm::TokenBucket => &TOKEN_BUCKET_STEP,
        Algorithm::FixedWindow => &FIXED_WINDOW_STEP,
        Algorithm::SlidingWindow => &SLIDING_WINDOW_STEP,
        _ => &SLIDING_LOG_STEP,
    }
}

fn one(parts: &[&str], name: &str) -> Script {
    let step = format!("local step = {name}\n");
    Script::new(&[&[COMMON], parts, &[&*step, ONE]].concat())
}

fn several(body: &str) -> Script {
    Script::new(&[COMMON, WIDE, WINDOWS, TOKEN_BUCKET, FIXED_WINDOW, SLIDING_WINDOW, SLIDING_LOG, body])
}

/// A script and the hash a server knows it by.
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
        self.command_by("EVALSHA", &self.hash, keys, arguments)
    }

    /// Runs it; when the server does not know it, once more with its source, which makes it known. There is no third
    /// time. `reloaded` is told of a second.
    pub(super) async fn run(
        &self,
        connection: &mut impl ConnectionLike,
        keys: &[&str],
        arguments: &[Vec<u8>],
        reloaded: impl FnOnce(),
    ) -> Result<Value, RedisError> {
        match self.command(keys, arguments).query_async(connection).await {
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                reloaded();
                self.command_by("EVAL", &self.source, keys, arguments).query_async(connection).await
            }
            answer => answer,
        }
    }

    fn command_by(&self, verb: &str, script: &str, keys: &[&str], arguments: &[Vec<u8>]) -> Cmd {
        let mut command = redis::cmd(verb);
        command.arg(script).arg(keys.len()).arg(keys);
        for argument in arguments {
            command.arg(&**argument);
        }
        command
    }
}
