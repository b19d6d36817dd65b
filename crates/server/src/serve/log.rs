//! What is told to standard error while it runs.

use std::io::{self, IsTerminal};

use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt};

use crate::cli::LogFormat;

/// Somebody else who sees what happens. It filters for itself.
pub(super) type Also = Box<dyn Layer<Registry> + Send + Sync>;

/// Starts logging. What is told is chosen by `RUST_LOG`, such as `debug`; `info` and what is worse unless said otherwise.
pub(super) fn start(format: LogFormat, also: Option<Also>) {
    let filter = EnvFilter::builder().with_default_directive(tracing::Level::INFO.into()).from_env_lossy();
    let lines = fmt::layer().with_writer(io::stderr).with_target(false).with_ansi(io::stderr().is_terminal());
    let registry = tracing_subscriber::registry().with(also);
    // Somebody else has begun to log in this process: that is a test, and fine.
    let _ = match format {
        LogFormat::Human => registry.with(lines.with_filter(filter)).try_init(),
        LogFormat::Json => registry.with(lines.json().flatten_event(true).with_filter(filter)).try_init(),
    };
}
