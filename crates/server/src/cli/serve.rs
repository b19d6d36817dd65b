//! The arguments of `tidegate serve`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Args, Parser, ValueEnum};

use super::{MemoryCapacity, usage_error};
use crate::Failure;
use crate::doors::HostName;
use crate::store_url::StoreUrl;

/// `tidegate serve`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Serve {
    /// The config: TOML, or YAML when the name ends in .yaml, .yml or .json. It is reloaded when it changes and on
    /// SIGHUP
    /// [default: a small built-in demonstration]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The address for HTTP: the API, metrics and the dashboard; or off
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8080")]
    pub http: Listen,
    /// The address for gRPC: Envoy's rate limit service; or off
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8081")]
    pub grpc: Listen,
    /// The address for the Redis protocol; or off
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:6380")]
    pub resp: Listen,
    /// The store: memory, sqlite:PATH, redis://... or postgres://... [default: memory]
    #[arg(long, value_name = "STORE")]
    pub store: Option<StoreUrl>,
    /// A file with the value of --store: other users of this machine can see arguments, and a password in them. The variable
    /// TIDEGATE_STORE can hold the value instead
    #[arg(long, value_name = "FILE", conflicts_with = "store")]
    pub store_file: Option<PathBuf>,
    /// The capacity of the memory store.
    #[command(flatten)]
    pub capacity: MemoryCapacity,
    /// A file for the keys of the memory store, from shutdown to the next start
    #[arg(long, value_name = "FILE")]
    pub snapshot: Option<PathBuf>,
    /// A file with the token that clients must present: `Authorization: Bearer` over HTTP and gRPC, AUTH over the Redis
    /// protocol. The variable TIDEGATE_TOKEN can hold the token instead
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// The certificates of this server, PEM. Every port speaks TLS then
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// The private key of the first certificate, PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// The certificates that must sign those of gRPC clients, PEM. Clients must present one then
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_client_ca: Option<PathBuf>,
    /// A name by which clients reach this server over HTTP without TLS and without a token, such as tidegate.internal;
    /// several with several flags. Addresses and localhost need no flag. Other names are refused: a page of another site may
    /// have had them point here
    #[arg(long = "allowed-host", value_name = "NAME")]
    pub allowed_hosts: Vec<HostName>,
    /// Listen beyond this machine even where nobody has to show a token
    #[arg(long)]
    pub insecure: bool,
    /// The time for requests in flight to finish after SIGTERM; 2 seconds less than `docker stop` waits
    #[arg(long, value_name = "TIME", default_value = "8s", value_parser = tidegate::config::parse_duration)]
    pub grace: Duration,
    /// The number of connections that each port serves at once; further ones wait
    #[arg(long, value_name = "N", default_value = "10000", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub max_connections: u32,
    /// How many bytes may wait in the process: requests and responses that are not done, and some 16 KiB for each connection
    #[arg(long, value_name = "N", default_value = "268435456", value_parser = clap::value_parser!(u64).range(1_048_576..=1_099_511_627_776))]
    pub max_buffered_bytes: u64,
    /// How many threads answer: more where nobody else needs the cores [default: half as many as there are cores, and one
    /// for each core for gRPC]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1_024))]
    pub threads: Option<u16>,
    /// The log format, on standard error. The variable RUST_LOG sets the level, such as debug; the default is info
    #[arg(long, value_enum, default_value_t = LogFormat::Human)]
    pub log: LogFormat,
    /// Log the keys of denied requests in full; the default is a short hash of each
    #[arg(long)]
    pub log_keys: bool,
    /// Show only a short hash of each key on the dashboard
    #[arg(long)]
    pub hide_keys: bool,
    /// Send traces and metrics to this OpenTelemetry collector over gRPC, such as http://127.0.0.1:4317
    #[cfg(feature = "otlp")]
    #[arg(long, value_name = "URL", value_parser = parse_collector)]
    pub otlp: Option<String>,
    /// Let clients of /v1/apply set the time (at_us), for tests of remote stores; never in production
    #[arg(long)]
    pub testing: bool,
}

/// `tidegate serve` without arguments.
impl Default for Serve {
    fn default() -> Self {
        /// A parser of these arguments alone.
        #[derive(Debug, Parser)]
        struct ServeParser {
            #[command(flatten)]
            serve: Serve,
        }
        ServeParser::parse_from(["tidegate"]).serve
    }
}

impl Serve {
    /// Returns the store of the arguments or of the environment. Defaults to memory.
    pub(crate) fn store_url(&self) -> Result<StoreUrl, Failure> {
        match StoreUrl::from_arguments(self.store.as_ref(), self.store_file.as_deref())? {
            Some(url) => Ok(url),
            None => StoreUrl::from_env().map(Option::unwrap_or_default),
        }
    }

    /// Checks that the arguments do not conflict.
    pub(crate) fn check(&self, store: &StoreUrl) -> Result<(), Failure> {
        self.capacity.check("serve", store)?;
        let outside = !store.is_memory();
        let conflicts = [
            (
                self.snapshot.is_some() && outside,
                "--snapshot is for --store memory: another store keeps what it holds by itself",
            ),
            (self.testing && outside, "--testing is for --store memory: only that takes the time from a test"),
            (
                self.tls_client_ca.is_some() && self.grpc == Listen::Off,
                "--tls-client-ca is for --grpc, which is off: nobody would have to show a certificate",
            ),
        ];
        match conflicts.into_iter().find(|(is_conflict, _)| *is_conflict) {
            Some((_, message)) => Err(Failure::Usage(usage_error("serve", ErrorKind::ArgumentConflict, message))),
            None => Ok(()),
        }
    }
}

/// An address to listen on, or off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listen {
    /// Listens on this address.
    At(SocketAddr),
    /// Does not listen.
    Off,
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "off" {
            return Ok(Listen::Off);
        }
        let expected = || format!("found {text:?}, expected an address such as 127.0.0.1:8080 or [::1]:8080, or off");
        text.parse().map(Listen::At).map_err(|_| expected())
    }
}

/// The log format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Lines for people.
    Human,
    /// One JSON object a line.
    Json,
}

/// Parses the address of a collector.
#[cfg(feature = "otlp")]
fn parse_collector(text: &str) -> Result<String, String> {
    let parsed = text.parse().ok().filter(|url: &http::Uri| url.scheme_str() == Some("http") && url.host().is_some());
    match parsed {
        Some(_) => Ok(text.to_owned()),
        None => Err(format!("found {text:?}, expected a URL such as http://127.0.0.1:4317, without TLS")),
    }
}

const EXAMPLES: &str = "\
Examples:
  tidegate serve                                    a demonstration; the dashboard is at http://127.0.0.1:8080/
  tidegate serve --config limits.toml --store redis://127.0.0.1/
  tidegate serve --config limits.toml --snapshot /var/lib/tidegate/state
  TIDEGATE_TOKEN=... tidegate serve --config limits.toml --http 0.0.0.0:8080 --tls-cert cert.pem --tls-key key.pem

Then:
  curl -d '{\"limit\":\"api\",\"key\":\"u1\"}' http://127.0.0.1:8080/v1/limit
  redis-cli -p 6380 TG.LIMIT api u1
  redis-cli -p 6380 CL.THROTTLE user123 15 30 60

It listens on this machine only unless told otherwise, and beyond it only where clients have to show a token
(--token-file, or TIDEGATE_TOKEN), or for gRPC a certificate (--tls-client-ca); --insecure lifts that.

SIGHUP reads the config again, as does a change of the file; one that is wrong changes nothing. Certificates and the
token are read at the start only. SIGTERM and Ctrl-C stop accepting, finish what is under way, and end with 0, or with 1
when the snapshot cannot be written; a second one does not wait for what is under way.";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, CliCommand};

    #[test]
    fn without_a_verb_the_program_serves_with_default_arguments() {
        assert!(Cli::parse_from(["tidegate"]).command.is_none());
        let Some(CliCommand::Serve(plain)) = Cli::parse_from(["tidegate", "serve"]).command else {
            panic!("it is that subcommand")
        };
        let default = Serve::default();
        assert_eq!(format!("{default:?}"), format!("{plain:?}"));
        for (listen, expected) in [(default.http, 8080), (default.grpc, 8081), (default.resp, 6380)] {
            assert!(
                matches!(listen, Listen::At(at) if at == SocketAddr::from(([127, 0, 0, 1], expected))),
                "{expected}"
            );
        }
    }
}
