//! What is told to standard error while it runs.

use std::io::{self, IsTerminal};

use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt};

use crate::cli::LogFormat;

/// Somebody else who sees what happens. It filters for itself.
pub(super) type Also = Box<dyn Layer<Registry> + Send + Sync>;

/// What is told unless `RUST_LOG` says otherwise. Not what h2 and rustls warn of: whoever can connect could have them do so with every
/// few bytes.
const TOLD: &str = "info,h2=off,rustls=off";

/// Starts logging. What is told is chosen by `RUST_LOG`, such as `debug`; `info` and what is worse unless said otherwise.
pub(super) fn start(format: LogFormat, also: Option<Also>) {
    let chosen = std::env::var(EnvFilter::DEFAULT_ENV).ok().filter(|chosen| !chosen.is_empty());
    let filter = EnvFilter::builder().with_default_directive(tracing::Level::INFO.into());
    let filter = filter.parse_lossy(chosen.as_deref().unwrap_or(TOLD));
    let lines = fmt::layer().with_writer(io::stderr).with_target(false).with_ansi(io::stderr().is_terminal());
    let registry = tracing_subscriber::registry().with(also);
    // Somebody else has begun to log in this process: that is a test, and fine.
    let _ = match format {
        LogFormat::Human => registry.with(lines.with_filter(filter)).try_init(),
        LogFormat::Json => registry.with(lines.json().flatten_event(true).with_filter(filter)).try_init(),
    };
}
