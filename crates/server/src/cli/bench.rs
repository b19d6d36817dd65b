//! The arguments of `tidegate bench`.

use std::convert::Infallible;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Args, ValueEnum};

use super::wrong;
use crate::bench::{Protocol, Target};

/// `tidegate bench`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Bench {
    /// Which servers: http://HOST:PORT, grpc://HOST:PORT, redis://HOST:PORT; with TLS https://, grpcs://, rediss://.
    /// Connections and requests are spread evenly over several, of one protocol or mixed
    #[arg(required = true, value_name = "URL")]
    pub urls: Vec<Target>,
    /// Requests a second, over all servers, sent when they are due whether or not earlier ones are answered; latency
    /// counts from when a request was due, so that a server that stalls cannot hide it
    /// [default: each connection asks again as soon as it is answered]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub rate: Option<u32>,
    /// How long: from 100ms to 1h
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    pub duration: Duration,
    /// Connections, over all servers
    #[arg(long, value_name = "N", default_value = "50", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub connections: u32,
    /// Redis protocol: requests sent together on a connection, before their answers are read
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub pipeline: u32,
    /// Which keys: one for all, all equally often, or the n-th one n times as seldom as the first
    #[arg(long, value_enum, default_value_t = Distribution::Uniform)]
    pub keys: Distribution,
    /// How many keys there are [default: 1000000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub key_count: Option<u64>,
    /// Which limit to ask for [default: api over HTTP; CL.THROTTLE, which needs none, over the Redis protocol]
    #[arg(long, value_name = "NAME")]
    pub limit: Option<String>,
    /// gRPC: the domain to ask for [default: envoy]
    #[arg(long, value_name = "NAME")]
    pub domain: Option<String>,
    /// gRPC: what the one entry of the descriptor is called, whose value is the key [default: remote_address]
    #[arg(long, value_name = "NAME")]
    pub descriptor: Option<String>,
    /// What each request costs
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..))]
    pub cost: u32,
    /// A file with the token that the servers want to see. The variable TIDEGATE_TOKEN can hold the token instead
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// The certificates that signed those of the servers, PEM, for TLS; nobody else's are trusted
    #[arg(long, value_name = "FILE")]
    pub tls_ca: Option<PathBuf>,
    /// Where the choice of keys starts: the same number, the same keys
    #[arg(long, value_name = "N", default_value = "1")]
    pub seed: u64,
    /// Where to write the picture of throughput and latency over time; or off
    #[arg(long, value_name = "FILE.svg", default_value = "tidegate-bench.svg")]
    pub picture: Picture,
    /// Print the figures as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// How often each key is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Distribution {
    /// One key.
    One,
    /// All equally often.
    Uniform,
    /// The n-th one n times as seldom as the first.
    Zipf,
}

/// Where to write a picture, if anywhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Picture {
    /// Write it there.
    To(PathBuf),
    /// Do not.
    Off,
}

impl FromStr for Picture {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(if text == "off" { Picture::Off } else { Picture::To(text.into()) })
    }
}

impl Bench {
    /// Arguments that are right each for itself, and wrong together.
    pub(crate) fn check(&self) -> Result<(), clap::Error> {
        let any = |protocol| self.urls.iter().any(|url| url.protocol == protocol);
        let (http, grpc, resp) = (any(Protocol::Http), any(Protocol::Grpc), any(Protocol::Resp));
        let tls = self.urls.iter().any(|url| url.tls);
        let conflicts = [
            (self.pipeline > 1 && !resp, "--pipeline is for the Redis protocol: expected a redis:// URL with it"),
            (self.domain.is_some() && !grpc, "--domain is for gRPC: expected a grpc:// URL with it"),
            (self.descriptor.is_some() && !grpc, "--descriptor is for gRPC: expected a grpc:// URL with it"),
            (
                self.limit.is_some() && !http && !resp,
                "--limit is for HTTP and the Redis protocol: over gRPC, --domain and --descriptor choose a limit",
            ),
            (
                self.key_count.is_some() && self.keys == Distribution::One,
                "--key-count is for --keys uniform and zipf: with --keys one there is one",
            ),
            (self.tls_ca.is_some() && !tls, "--tls-ca is for TLS: expected a URL with https, grpcs or rediss"),
            (
                (self.connections as usize) < self.urls.len(),
                "--connections is less than there are servers: expected at least one for each",
            ),
        ];
        if let Some((_, message)) = conflicts.iter().find(|(wrong, _)| *wrong) {
            return Err(wrong("bench", ErrorKind::ArgumentConflict, message));
        }
        if tls && self.tls_ca.is_none() {
            let message = "TLS needs --tls-ca FILE: the certificates, in PEM, that signed those of the servers";
            return Err(wrong("bench", ErrorKind::MissingRequiredArgument, message));
        }
        Ok(())
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    let duration = tidegate::config::parse_duration(text)?;
    let allowed = Duration::from_millis(100)..=Duration::from_secs(3_600);
    if allowed.contains(&duration) { Ok(duration) } else { Err(format!("found {text}, expected from 100ms to 1h")) }
}

const EXAMPLES: &str = "\
Examples:
  tidegate bench http://127.0.0.1:8080              as fast as 50 connections allow, for 10 seconds
  tidegate bench http://127.0.0.1:8080 --rate 5000 --duration 1m --keys zipf
                                                    how it bears a steady load, with popular keys and rare ones
  tidegate bench redis://127.0.0.1:6380 --limit api --pipeline 16
  tidegate bench grpc://127.0.0.1:8081 --domain shop --descriptor user
  tidegate bench http://10.0.0.1:8080 http://10.0.0.2:8080 --rate 20000 --json > figures.json
                                                    a fleet, half of the load for each

What is asked, with keys bench-0, bench-1, ...:
  http://   POST /v1/limit {\"limit\":\"api\",\"key\":\"bench-0\",\"cost\":1}
  grpc://   envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit, one descriptor of one entry
  redis://  CL.THROTTLE bench-0 15 30 60 1, or with --limit NAME: TG.LIMIT NAME bench-0 1

It prints requests, how many were allowed and denied, errors by kind, and percentiles of latency, and draws them over
time. Errors have no latency. An answer that says the request is wrong, such as an unknown limit or a missing token, ends
it at once, with exit code 1, if it comes from a server that has decided nothing yet. Ctrl-C ends it early with what it has. How to read all that: docs/bench.md.

It spends what it asks for: with real limits and real stores, choose a limit that nobody else needs.";
