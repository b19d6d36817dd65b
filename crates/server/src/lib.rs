//! The `tidegate` program: one module for each subcommand, and the network protocols over one `App`.
#![forbid(unsafe_code)]

mod app;
mod check;
mod cli;
mod doors;
mod log_throttle;
mod net;
mod request;
mod runtime;
mod serve;
mod simulate;
mod store_url;

use std::io::{self, Write};
use std::process::ExitCode;

pub use cli::{Bench, Check, Cli, CliCommand, Listen, LogFormat, Picture, Serve, Simulate};
pub use store_url::StoreUrl;
use tidegate::config::ConfigErrors;
use tidegate_loadtest::LoadError;

/// Runs the program. Its exit code is 0 on success, 1 for bad input or an unusable store, and 2 for wrong usage, which
/// clap usually finds before.
pub fn run(cli: Cli) -> ExitCode {
    let result = match &cli.command {
        Some(CliCommand::Serve(serve)) => serve::run(serve),
        Some(CliCommand::Check(check)) => check::run(check),
        Some(CliCommand::Simulate(simulate)) => simulate::run(simulate),
        Some(CliCommand::Bench(bench)) => cli::bench::run(bench),
        None => serve::run(&Serve::default()),
    };
    match result {
        // The reader of the output has read enough, as `head` does.
        Ok(()) | Err(Failure::OutputClosed) => ExitCode::SUCCESS,
        Err(Failure::Reported) => ExitCode::FAILURE,
        Err(Failure::Usage(error)) => {
            // As for `print_message`.
            let _ = error.print();
            ExitCode::from(2)
        }
        Err(failure) => {
            print_message(&failure.to_string());
            ExitCode::FAILURE
        }
    }
}

/// Prints a message for people. A standard error that is closed has no reader to miss it.
fn print_message(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Why the program ends early.
#[derive(Debug, thiserror::Error)]
enum Failure {
    /// Errors in a config, one line each.
    #[error(transparent)]
    Config(#[from] ConfigErrors),
    /// Bad input that is reported already.
    #[error("bad input")]
    Reported,
    /// Bad input in a trace: `TRACE:LINE:COLUMN: message`.
    #[error("{0}")]
    Input(String),
    /// The store is unusable. The text has the cause and the next step.
    #[error("{0}")]
    Store(String),
    /// The server cannot start. The text has the cause and the next step.
    #[error("{0}")]
    Start(String),
    /// The load test cannot run. The text has the cause and the next step.
    #[error("{0}")]
    Load(String),
    /// Arguments that conflict.
    #[error(transparent)]
    Usage(clap::Error),
    /// Standard output was closed by its reader.
    #[error("standard output was closed")]
    OutputClosed,
    /// Standard output could not be written.
    #[error("standard output cannot be written: {0}")]
    Output(io::Error),
}

impl Failure {
    /// Distinguishes a closed standard output, which is no error, from a broken one.
    fn from_output(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::OutputClosed,
            _ => Failure::Output(error),
        }
    }
}

impl From<LoadError> for Failure {
    fn from(error: LoadError) -> Self {
        Failure::Load(error.to_string())
    }
}
