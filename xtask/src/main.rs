//! The project's own commands. `cargo xtask` lists them.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr)] // a command-line tool prints

mod adapters;
mod bench;
mod book;
mod cargo;
mod deep;
mod fuzz;
mod instructions;
mod links;
mod markdown;
mod open_files;
mod packages;
mod parallel;
mod prose;
mod servers;
mod sources;
mod test;
mod wasm;

use std::path::Path;
use std::process::ExitCode;

const HELP: &str = "\
cargo xtask COMMAND

  test          everything that has to hold: format, prose, links, clippy, tests, fuzzing, loom, instructions, docs,
                examples, every feature and every adapter crate alone
  bench         side by side with the peers, as ratios in one run
  instructions  what the hot paths cost in instructions, beside what they cost before; --bless keeps what they cost now
  deep          the longer runs: more oracle traces, an hour of hostile load, 10,000 hostile connections, a deeper loom search,
                a soak of the memory store, fuzzing, the book
  servers       the Redis, Valkey, cluster, Postgres and PgBouncer that the tests talk to, for working by hand
  book          builds the book into target/book/html; --serve [PORT] serves it, at http://localhost:3000 by default
  prose         counts patterns in comments and pages that the style bans; --list [PATTERN] shows where they are, --lower
                writes lower counts to xtask/prose.txt
  links         checks the links and anchors of every page
";

fn main() -> ExitCode {
    // All paths are relative to the repository's root, so that the command works in every folder below it.
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
        "book" => book::run(rest),
        "prose" => prose::run(rest),
        "links" => links::check(),
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
