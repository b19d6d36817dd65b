//! The command line: standard output, standard error and exit code.

mod bad_input;
mod bench;
mod check;
mod doc_examples;
mod golden;
mod simulate_stores;
mod store;
mod streams;
mod usage;

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use store::TestStore;

fn tidegate() -> Command {
    Command::new(env!("CARGO_BIN_EXE_tidegate"))
}

/// The result of a run.
#[derive(Debug)]
struct CliOutput {
    /// The process id.
    id: u32,
    stdout: String,
    stderr: String,
    code: i32,
}

fn run(arguments: &[&str]) -> CliOutput {
    run_with_input(arguments, "")
}

fn run_with_input(arguments: &[&str], input: impl AsRef<[u8]>) -> CliOutput {
    let mut command = tidegate();
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    let id = child.id();
    let mut stdin = child.stdin.take().expect("piped");
    let input = input.as_ref().to_vec();
    // The program may stop reading at a bad line.
    let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().expect("the program ends");
    writer.join().expect("written");
    CliOutput {
        id,
        stdout: String::from_utf8(output.stdout).expect("text"),
        stderr: String::from_utf8(output.stderr).expect("text"),
        code: output.status.code().expect("no signal"),
    }
}

/// Writes a file of this test run.
fn write_file(name: &str, text: impl AsRef<[u8]>) -> String {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, text).expect("written");
    path.to_str().expect("text").to_owned()
}

/// Replays a trace from standard input.
fn simulate(config: &str, trace: impl AsRef<[u8]>) -> CliOutput {
    run_with_input(&["simulate", "--config", config, "--trace", "-"], trace)
}

/// Replays a trace from standard input on a store.
fn simulate_on(store: &TestStore, config: &str, trace: impl AsRef<[u8]>) -> CliOutput {
    run_with_input(&["simulate", "--config", config, "--trace", "-", "--store", &store.url], trace)
}

/// A config with one limit, `api`, of 5 in a minute.
fn api_config() -> String {
    // Written once, because tests run concurrently.
    static API: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    let text = "[limits.api]\nalgorithm = \"token_bucket\"\nrate = 5\nperiod = \"1m\"\n";
    API.get_or_init(|| write_file("api.toml", text)).clone()
}

const VALID_LINE: &str = r#"{"at_ms":0,"op":"limit","limit":"api","key":"u1"}"#;
