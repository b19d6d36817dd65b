//! The start of the server: ports, threads, and arguments that it refuses.

use std::fs;
use std::net::TcpStream;
use std::process::Command;

use crate::serve::program::Program;

#[test]
fn only_the_logged_ports_are_open() {
    let program = Program::start(&["--grpc", "off"]);
    assert_eq!(program.grpc, None);
    for address in [program.http, program.resp] {
        TcpStream::connect(address.expect("a port")).expect("it listens");
    }
    assert!(program.stop().0.success());
}

#[test]
fn a_public_address_needs_authentication() {
    let cases: [(&[&str], &str); 6] = [
        (&["--http", "0.0.0.0:0"], "--http 0.0.0.0:0 is open to others"),
        (&["--grpc", "[::]:0"], "--grpc [::]:0 is open to others"),
        (&["--resp", "0.0.0.0:0"], "--resp 0.0.0.0:0 is open to others"),
        (&["--http", "off", "--grpc", "off", "--resp", "off"], "every port is off"),
        (&["--token-file", "no-such-file"], "no-such-file: cannot be read"),
        (&["--tls-cert", "Cargo.toml", "--tls-key", "Cargo.toml"], "Cargo.toml: no certificate"),
    ];
    for (arguments, said) in cases {
        let (code, stderr) = run_serve(arguments, None);
        assert_eq!(code, Some(1), "{arguments:?}: {stderr}");
        assert!(stderr.contains(said), "{arguments:?}: {stderr}");
    }
    let (code, stderr) = run_serve(&["--http", "0.0.0.0:0"], Some("short"));
    assert_eq!(code, Some(1));
    assert!(stderr.contains("TIDEGATE_TOKEN: the token is too short"), "{stderr}");
    assert!(!stderr.contains("short\""), "{stderr}");
}

#[test]
fn a_token_or_insecure_allows_a_public_address() {
    let token = [("TIDEGATE_TOKEN", "0123456789abcdef")];
    let program =
        Program::start_with_env(&["--http", "0.0.0.0:0", "--grpc", "0.0.0.0:0", "--resp", "0.0.0.0:0"], &token);
    assert!(program.stop().0.success());
    let program = Program::start(&["--http", "0.0.0.0:0", "--insecure"]);
    assert!(program.stop().0.success());
}

#[test]
fn thread_counts_follow_cores_or_the_argument() {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let for_grpc = if cores > 1 { cores } else { 0 };
    let cases: [(&[&str], usize); 5] = [
        (&["--threads", "3"], 3),
        (&[], cores.div_ceil(2) + for_grpc),
        (&["--grpc", "off"], cores.div_ceil(2)),
        (&["--http", "off", "--resp", "off"], cores.div_ceil(2) + for_grpc),
        (&["--http", "off", "--resp", "off", "--threads", "1"], 1),
    ];
    for (arguments, expected) in cases {
        let program = Program::start(arguments);
        let tasks = fs::read_dir(format!("/proc/{}/task", program.id())).expect("a process that runs");
        // And the main thread.
        assert_eq!(tasks.count(), expected + 1, "{arguments:?}");
    }
    let (code, stderr) = run_serve(&["--threads", "0"], None);
    assert_eq!(code, Some(2));
    assert!(stderr.contains("--threads"), "{stderr}");
}

fn run_serve(arguments: &[&str], token: Option<&str>) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.args(["serve", "--log", "json"]).args(arguments).env_remove("TIDEGATE_TOKEN");
    for port in ["--http", "--grpc", "--resp"] {
        if !arguments.contains(&port) {
            command.args([port, "127.0.0.1:0"]);
        }
    }
    if let Some(token) = token {
        command.env("TIDEGATE_TOKEN", token);
    }
    let ran = command.output().expect("the program");
    (ran.status.code(), String::from_utf8(ran.stderr).expect("text"))
}
