//! What the `tidegate` program does, one module for each verb.
#![forbid(unsafe_code)]

mod bench;
mod check;
mod cli;
mod failure;
mod serve;
mod simulate;
mod store;
mod threads;

use std::io::{self, Write};
use std::process::ExitCode;

// Requests and decisions as JSON, the same wherever the program reads and writes them.
use tidegate::api as json;

pub use bench::Target;
pub use cli::{Bench, Check, Cli, Distribution, Listen, LogFormat, Picture, Serve, Simulate, Verb};
use failure::Failure;
pub use store::StoreUrl;

/// Runs the program: 0 when all went well, 1 for bad input or a store that cannot be used. (Wrong usage is 2, and most
/// of it is found before this.)
pub fn run(cli: Cli) -> ExitCode {
    let done = match &cli.verb {
        Some(Verb::Serve(serve)) => serve::run(serve),
        Some(Verb::Check(check)) => check::run(check),
        Some(Verb::Simulate(simulate)) => simulate::run(simulate),
        Some(Verb::Bench(bench)) => bench::run(bench),
        None => serve::run(&Serve::default()),
    };
    match done {
        // Whoever read the output has had enough, as `head` does: that is no failure.
        Ok(()) | Err(Failure::ReaderLeft) => ExitCode::SUCCESS,
        Err(Failure::Told) => ExitCode::FAILURE,
        Err(Failure::Usage(error)) => {
            // As for `say`.
            let _ = error.print();
            ExitCode::from(2)
        }
        Err(failure) => {
            say(&failure.to_string());
            ExitCode::FAILURE
        }
    }
}

/// Says something to people. When nobody listens to standard error there is nobody to tell.
fn say(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}
