//! `tidegate bench`: its arguments, and the load test that it runs.

use std::convert::Infallible;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use clap::error::ErrorKind;
use indicatif::{ProgressBar, ProgressStyle};
use tidegate_loadtest::{KeyDistribution, LoadTest, Progress, Protocol, Target};

use super::{read_token, usage_error};
use crate::net::tls::read_roots;
use crate::runtime::build_runtime;
use crate::{Failure, print_message};

/// `tidegate bench`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Bench {
    /// The servers: http://HOST:PORT, grpc://HOST:PORT, redis://HOST:PORT; with TLS https://, grpcs://, rediss://.
    /// Connections and requests are spread evenly over several servers, also with different protocols
    #[arg(required = true, value_name = "URL")]
    pub urls: Vec<Target>,
    /// The rate of requests a second, over all servers. Requests are sent when they are due, even before earlier
    /// responses.
    /// Latency counts from the due time, so a server that stalls cannot hide it
    /// [default: each connection sends its next request after a response]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub rate: Option<u32>,
    /// The length of the test, from 100ms to 1h
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    pub duration: Duration,
    /// The number of connections, over all servers
    #[arg(long, value_name = "N", default_value = "50", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub connections: u32,
    /// Redis protocol: the number of requests that a connection sends before it reads their replies
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub pipeline: u32,
    /// The distribution of keys: one key, all equally often, or the n-th one n times as seldom as the first
    #[arg(long, value_enum, default_value_t = KeyDistribution::Uniform)]
    pub keys: KeyDistribution,
    /// The number of keys [default: 1000000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub key_count: Option<u64>,
    /// The name of the limit [default: api over HTTP; CL.THROTTLE, which needs none, over the Redis protocol]
    #[arg(long, value_name = "NAME")]
    pub limit: Option<String>,
    /// gRPC: the domain [default: envoy]
    #[arg(long, value_name = "NAME")]
    pub domain: Option<String>,
    /// gRPC: the name of the descriptor's one entry, whose value is the key [default: remote_address]
    #[arg(long, value_name = "NAME")]
    pub descriptor: Option<String>,
    /// The cost of each request
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..))]
    pub cost: u32,
    /// A file with the token of the servers. The variable TIDEGATE_TOKEN can hold the token instead
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// The only trusted root certificates of the servers, PEM, for TLS
    #[arg(long, value_name = "FILE")]
    pub tls_ca: Option<PathBuf>,
    /// The seed of the keys: an equal seed gives equal keys
    #[arg(long, value_name = "N", default_value = "1")]
    pub seed: u64,
    /// The file for the picture of throughput and latency over time; or off
    #[arg(long, value_name = "FILE.svg", default_value = "tidegate-bench.svg")]
    pub picture: Picture,
    /// Print the figures as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// The target of the picture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Picture {
    /// Writes it to this file.
    To(PathBuf),
    /// Writes no picture.
    Off,
}

impl FromStr for Picture {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(if text == "off" { Picture::Off } else { Picture::To(text.into()) })
    }
}

/// The default of `--key-count`.
const KEYS: u64 = 1_000_000;

/// Runs the load test, and prints and draws its results.
pub(crate) fn run(bench: &Bench) -> Result<(), Failure> {
    let test = bench.load_test()?;
    let chart = bench.picture.checked_path()?;
    let runtime = build_runtime(None).map_err(|error| Failure::Load(format!("no threads to run on: {error}")))?;
    let bar = ProgressDisplay::new(test.duration);
    let result = runtime.block_on(test.run(|progress| bar.update(progress), interrupted));
    bar.finish();
    let report = result?;

    let text = if bench.json { report.to_json() } else { report.to_string() };
    let mut out = io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Failure::from_output);
    if bench.json {
        // The table has them below it; the JSON object has no place for them.
        report.notes().iter().for_each(|note| print_message(note));
    }
    if let Some(path) = chart {
        // Even if the reader of the figures is gone.
        let failed = |error| Failure::Load(format!("{}: the picture cannot be written: {error}", path.display()));
        std::fs::write(path, report.to_svg()).map_err(failed)?;
        print_message(&format!("picture: {}", path.display()));
    }
    written
}

/// Waits for Ctrl-C.
async fn interrupted() {
    if tokio::signal::ctrl_c().await.is_err() {
        // Without a handler, the signal ends the program as usual.
        std::future::pending::<()>().await;
    }
}

/// A progress bar on standard error if that is a terminal, else nothing.
struct ProgressDisplay(Option<ProgressBar>);

impl ProgressDisplay {
    fn new(duration: Duration) -> Self {
        if !io::stderr().is_terminal() {
            return ProgressDisplay(None);
        }
        let style = ProgressStyle::with_template("{bar:40} {msg}").unwrap_or_else(|_| ProgressStyle::default_bar());
        ProgressDisplay(Some(ProgressBar::new(duration.as_millis() as u64).with_style(style)))
    }

    fn update(&self, Progress { elapsed, requests, errors, .. }: Progress) {
        if let Some(bar) = &self.0 {
            let left = Duration::from_millis(bar.length().unwrap_or(0)).saturating_sub(elapsed);
            let rate = requests as f64 / elapsed.as_secs_f64().max(0.001);
            bar.set_message(format!("{rate:.0} a second, {errors} errors, {}s left", left.as_secs()));
            bar.set_position(elapsed.as_millis() as u64);
        }
    }

    /// Removes the bar, so that the next output stands alone.
    fn finish(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

impl Picture {
    /// Returns the path. A missing folder is an error before a long run, and not after it.
    fn checked_path(&self) -> Result<Option<&Path>, Failure> {
        let Picture::To(path) = self else { return Ok(None) };
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        if path.is_dir() || folder.is_some_and(|folder| !folder.is_dir()) {
            return Err(Failure::Load(format!(
                "{}: no picture can be written there: expected a file in a folder that exists, or --picture off",
                path.display()
            )));
        }
        Ok(Some(path))
    }
}

impl Bench {
    fn load_test(&self) -> Result<LoadTest, Failure> {
        self.check().map_err(Failure::Usage)?;
        let default = LoadTest::new(self.urls.clone());
        Ok(LoadTest {
            rate: self.rate,
            duration: self.duration,
            connections: self.connections as usize,
            pipeline: self.pipeline as usize,
            keys: self.keys,
            key_count: self.key_count.unwrap_or(if self.keys == KeyDistribution::One { 1 } else { KEYS }),
            seed: self.seed,
            limit: self.limit.clone(),
            domain: self.domain.clone().unwrap_or(default.domain),
            descriptor: self.descriptor.clone().unwrap_or(default.descriptor),
            cost: self.cost,
            token: read_token(self.token_file.as_deref())?,
            tls_roots: self.tls_ca.as_deref().map(read_roots).transpose()?,
            targets: default.targets,
        })
    }

    /// Checks that the arguments do not conflict.
    fn check(&self) -> Result<(), clap::Error> {
        let any = |protocol| self.urls.iter().any(|url| url.protocol() == protocol);
        let (http, grpc, resp) = (any(Protocol::Http), any(Protocol::Grpc), any(Protocol::Resp));
        let tls = self.urls.iter().any(|url| url.is_tls());
        let conflicts = [
            (self.pipeline > 1 && !resp, "--pipeline is for the Redis protocol: expected a redis:// URL with it"),
            (self.domain.is_some() && !grpc, "--domain is for gRPC: expected a grpc:// URL with it"),
            (self.descriptor.is_some() && !grpc, "--descriptor is for gRPC: expected a grpc:// URL with it"),
            (
                self.limit.is_some() && !http && !resp,
                "--limit is for HTTP and the Redis protocol: over gRPC, --domain and --descriptor choose a limit",
            ),
            (
                self.key_count.is_some() && self.keys == KeyDistribution::One,
                "--key-count is for --keys uniform and zipf: with --keys one there is one",
            ),
            (self.tls_ca.is_some() && !tls, "--tls-ca is for TLS: expected a URL with https, grpcs or rediss"),
            (
                (self.connections as usize) < self.urls.len(),
                "--connections is less than there are servers: expected at least one for each",
            ),
        ];
        if let Some((_, message)) = conflicts.iter().find(|(is_conflict, _)| *is_conflict) {
            return Err(usage_error("bench", ErrorKind::ArgumentConflict, message));
        }
        if tls && self.tls_ca.is_none() {
            let message = "TLS needs --tls-ca FILE: the certificates, in PEM, that signed those of the servers";
            return Err(usage_error("bench", ErrorKind::MissingRequiredArgument, message));
        }
        Ok(())
    }
}

fn parse_duration(text: &str) -> Result<Duration, String> {
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
it at once, with exit code 1, if it comes from a server that has decided nothing yet. Ctrl-C ends it early with what it has. How to read all that: docs/book/src/how-to/bench.md.

It spends what it asks for: with real limits and real stores, choose a limit that nobody else needs.";
