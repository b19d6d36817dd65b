//! The command line: subcommands and their arguments.

pub(crate) mod bench;
mod serve;

use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand};

pub use bench::{Bench, Picture};
pub use serve::{Listen, LogFormat, Serve};

use tidegate::api::BearerToken;
use tidegate::{MemoryStore, MemoryStoreBuilder};

use crate::Failure;
use crate::store_url::StoreUrl;

/// The environment variable with the token.
const TOKEN_VARIABLE: &str = "TIDEGATE_TOKEN";

/// Rate limiting and admission control.
///
/// Without a subcommand it serves a small built-in config as a demonstration.
#[derive(Debug, Parser)]
#[command(name = "tidegate", version, about, long_about, after_help = EXAMPLES, max_term_width = 100)]
pub struct Cli {
    /// The subcommand.
    #[command(subcommand)]
    pub command: Option<CliCommand>,
}

const EXAMPLES: &str = "\
Examples:
  tidegate                                          a demonstration, with a dashboard in the browser
  tidegate serve --config limits.toml               answer a fleet: HTTP, Envoy's protocol, the Redis protocol
  tidegate check limits.toml                        is this config right?
  tidegate simulate --config limits.toml --trace requests.jsonl
                                                    what would it have decided?
  tidegate simulate --config limits.toml --trace requests.jsonl --store redis://127.0.0.1/
                                                    and does Redis decide the same?
  tidegate bench http://127.0.0.1:8080              how much does it bear?

Exit codes: 0 all went well, 1 something did not, which is said, 2 wrong usage, 128 and its number after a signal that
ended `simulate` early.";

/// A subcommand of the program.
#[derive(Debug, Subcommand)]
pub enum CliCommand {
    /// Answer over HTTP, gRPC and the Redis protocol
    Serve(Box<Serve>),
    /// Report the mistakes in configs, with line and column
    Check(Check),
    /// Replay a trace against a config, in the trace's own time
    Simulate(Simulate),
    /// Put a bounded load on servers over HTTP, gRPC or the Redis protocol, and draw the results
    Bench(Box<Bench>),
}

/// `tidegate check`.
#[derive(Debug, Args)]
#[command(after_help = CHECK_EXAMPLES)]
pub struct Check {
    /// Configs: TOML, or YAML when the name ends in .yaml, .yml or .json; YAML also in the format of envoyproxy/ratelimit
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
}

const CHECK_EXAMPLES: &str = "\
Examples:
  tidegate check limits.toml
  tidegate check conf/*.yaml        # in Envoy's format: those of a folder also together

A small config:
  [limits.login]
  algorithm = \"fixed_window\"      # token_bucket, fixed_window, sliding_window or sliding_log
  rate = 5
  period = \"1m\"                   # 500ms, 10s, 1m, 1h, 1d

  [limits.uploads]
  algorithm = \"concurrency\"       # how many at once
  capacity = 3
  ttl = \"30s\"                     # until a lease that is not renewed expires

Exit code 1 when something is wrong with any of them; everything that is wrong is told, up to 100 errors of a config.";

/// `tidegate simulate`.
#[derive(Debug, Args)]
#[command(after_help = SIMULATE_EXAMPLES)]
pub struct Simulate {
    /// The config with the limits, ours or in the format of envoyproxy/ratelimit
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// The trace, one JSON object a line; - is standard input
    #[arg(long, value_name = "FILE|-")]
    pub trace: PathBuf,
    /// The store: memory, sqlite:PATH, redis://... or postgres://... [default: memory]
    #[arg(long, value_name = "STORE")]
    pub store: Option<StoreUrl>,
    /// A file with the value of --store: other users of this machine can see arguments, and a password in them
    #[arg(long, value_name = "FILE", conflicts_with = "store")]
    pub store_file: Option<PathBuf>,
    /// The capacity of the memory store.
    #[command(flatten)]
    pub capacity: MemoryCapacity,
    /// Print no decisions, only the summary
    #[arg(long)]
    pub summary_only: bool,
}

/// Creates clap's error for wrong arguments of a subcommand.
pub(crate) fn usage_error(subcommand: &str, kind: ErrorKind, message: &str) -> clap::Error {
    let mut command = Cli::command();
    // The build puts the name of the program into the subcommand's usage.
    command.build();
    let command = command.find_subcommand_mut(subcommand).expect("it is a subcommand");
    command.error(kind, message)
}

const SIMULATE_EXAMPLES: &str = "\
Examples:
  tidegate simulate --config limits.toml --trace requests.jsonl > decisions.jsonl
  zcat requests.jsonl.gz | tidegate simulate --config limits.toml --trace - --summary-only
  tidegate simulate --config limits.toml --trace requests.jsonl --store sqlite:/tmp/limits.db | cmp - decisions.jsonl

A line of a trace:
  {\"at_ms\":0,\"op\":\"limit\",\"limit\":\"api\",\"key\":\"u1\",\"cost\":1}
    at_ms   when, in milliseconds; the trace has its own time, so a run is the same every time
    op      limit, check, reserve, refund or reset; admit, renew or release of a concurrency limit
    limit   a name from the config
    key     a text, a list of texts, or null for everybody together; at most 4 KiB;
            {\"client\":\"192.0.2.1\"} for a client that is counted by its address
    cost    a whole number, at least 1; may be left out, and is 1 then
    lease   for admit, renew and release: 16 lower-case hexadecimal digits of the trace's choice

A line of the output, one for each line of the trace, in order:
  {\"allowed\":true,\"limit\":5,\"remaining\":4,\"retry_after_ms\":null,\"reset_after_ms\":60000,\"reason\":null}

Decisions go to standard output, everything else to standard error.

With a config in the format of envoyproxy/ratelimit, a line is a rate limit request of Envoy's, and when:
  {\"at_ms\":0,\"domain\":\"shop\",\"descriptors\":[{\"entries\":[{\"key\":\"path\",\"value\":\"/login\"}]}],\"hits_addend\":1}
Of its limits the one is told that binds: the one that holds it back longest, or else the one that leaves least. Where
there is none, limit and remaining are 4294967295.

A store, all of which give the same decisions:
  memory                                       this process's memory; by far the fastest
  sqlite:PATH                                  an SQLite file, made if it is missing, and put into WAL mode
  redis://[USER:PASSWORD@]HOST[:PORT][/DB]     Redis or Valkey, without TLS
  postgres://USER[:PASSWORD]@HOST[:PORT]/DB    Postgres, without TLS
Other than memory, a store may be in use: the replay writes its keys under a prefix of its own, simulate-PID-TIME, and
removes them at the end, also after a bad line or Ctrl-C. In a database that had none, the empty table `tidegate` stays.";

/// The capacity of the memory store.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct MemoryCapacity {
    /// The number of keys that fit in memory, at about 29 bytes each [default: 1000000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub max_keys: Option<u64>,
    /// The bytes for larger states: sliding logs, leases, sliding windows of many buckets [default: 268435456]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1_048_576..=1_099_511_627_776))]
    pub max_bytes: Option<u64>,
}

impl MemoryCapacity {
    /// Rejects the arguments for another store.
    pub(crate) fn check(&self, subcommand: &str, store: &StoreUrl) -> Result<(), Failure> {
        let given = [("--max-keys", self.max_keys), ("--max-bytes", self.max_bytes)];
        match given.into_iter().find(|(_, given)| given.is_some() && !store.is_memory()) {
            None => Ok(()),
            Some((name, _)) => {
                let why = format!("{name} is for --store memory: another store has room of its own");
                Err(Failure::Usage(usage_error(subcommand, ErrorKind::ArgumentConflict, &why)))
            }
        }
    }

    /// Returns a memory store with this capacity.
    pub(crate) fn builder(&self) -> MemoryStoreBuilder {
        let mut builder = MemoryStore::builder();
        if let Some(keys) = self.max_keys {
            builder = builder.max_keys(usize::try_from(keys).unwrap_or(usize::MAX));
        }
        if let Some(bytes) = self.max_bytes {
            builder = builder.max_bytes(usize::try_from(bytes).unwrap_or(usize::MAX));
        }
        builder
    }
}

/// Reads the token in a file, or else in the environment variable, if there is one.
pub(crate) fn read_token(file: Option<&Path>) -> Result<Option<BearerToken>, Failure> {
    let (text, source) = match file {
        Some(path) => {
            let source = path.display().to_string();
            let read = std::fs::read_to_string(path);
            (read.map_err(|error| Failure::Start(format!("{source}: cannot be read: {error}")))?, source)
        }
        None => match std::env::var(TOKEN_VARIABLE) {
            Ok(text) => (text, TOKEN_VARIABLE.to_owned()),
            Err(std::env::VarError::NotPresent) => return Ok(None),
            Err(error) => return Err(Failure::Start(format!("{TOKEN_VARIABLE}: {error}"))),
        },
    };
    let malformed = || {
        let expected = BearerToken::EXPECTED;
        Failure::Start(format!("{source}: the token is too short, too long or has other characters: {expected}"))
    };
    BearerToken::parse(&text).ok_or_else(malformed).map(Some)
}
