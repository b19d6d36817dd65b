//! The `tidegate` program.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use tidegate_server::{Cli, run};

fn main() -> ExitCode {
    run(Cli::parse())
}
