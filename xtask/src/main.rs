//! The project's own commands. `cargo xtask` lists them.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr)] // a command-line tool talks

mod adapters;
mod bench;
mod cargo;
mod deep;
mod fuzz;
mod instructions;
mod open_files;
mod packages;
mod parallel;
mod servers;
mod test;
mod wasm;

use std::path::Path;
use std::process::ExitCode;

const HELP: &str = "\
cargo xtask COMMAND

  test          everything that has to hold: format, clippy, tests, fuzzing, loom, instructions, docs, examples, every
                feature and every adapter crate alone
  bench         side by side with the peers, as ratios in one run
  instructions  what the hot paths cost in instructions, beside what they cost before; --bless keeps what they cost now
  deep          the longer runs: more oracle traces, an hour of hostile load, a deeper loom search, a soak of the memory store,
                fuzzing
  servers       the Redis, Valkey, cluster, Postgres and PgBouncer that the tests talk to, for working by hand
";

fn main() -> ExitCode {
    // Everything is named from the repository's root, wherever below it the command is run.
    if let Some(root) = std::env::var_os("CARGO_MANIFEST_DIR").as_deref().and_then(|own| Path::new(own).parent())
        && let Err(error) = std::env::set_current_dir(root)
    {
        eprintln!("xtask: {}: {error}", root.display());
        return ExitCode::FAILURE;
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (command, rest) = match arguments.split_first() {
        Some((command, rest)) => (command.as_str(), rest),
        None => ("help", arguments.as_slice()),
    };
    let result = match command {
        "test" => test::run(),
        "bench" => bench::run(rest),
        "instructions" => instructions::run(rest),
        "deep" => deep::run(),
        "servers" => servers::run(),
        "help" | "-h" | "--help" => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        unknown => {
            eprint!("xtask: there is no command {unknown:?}\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("\nxtask {command}: {error}");
            ExitCode::FAILURE
        }
    }
}
