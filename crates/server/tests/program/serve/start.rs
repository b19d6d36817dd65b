//! The start of the server: ports, threads, and arguments that it refuses.

use std::fs;
use std::net::TcpStream;
use std::process::Command;

use crate::serve::program::Program;
use crate::serve::{get, write_file};

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
        // In addition, the main thread, and the thread for long pages.
        assert_eq!(tasks.count(), expected + 2, "{arguments:?}");
    }
    let (code, stderr) = run_serve(&["--threads", "0"], None);
    assert_eq!(code, Some(2));
    assert!(stderr.contains("--threads"), "{stderr}");
}

/// Other users of the machine can see arguments, and the URL of a store can have a password in it.
#[test]
fn store_url_can_come_from_a_file_or_the_environment() {
    let database = std::env::temp_dir().join(format!("tidegate-secret-store-{}.db", std::process::id()));
    let url = format!("sqlite:{}", database.display());
    let file = write_file("store-url", format!("{url}\n"));
    for program in [
        Program::start(&["--store-file", &file]),
        Program::start_with_env(&[], &[("TIDEGATE_STORE", &url)]),
        // An argument comes before the environment.
        Program::start_with_env(&["--store-file", &file], &[("TIDEGATE_STORE", "memory")]),
    ] {
        assert!(get(&program, "/metrics").contains("store=\"sqlite\""));
        let arguments = fs::read_to_string(format!("/proc/{}/cmdline", program.id())).expect("a process that runs");
        assert!(!arguments.contains("secret"), "{arguments}");
        assert!(program.stop().0.success());
    }
    let program = Program::start_with_env(&["--store", "memory"], &[("TIDEGATE_STORE", &url)]);
    assert!(get(&program, "/metrics").contains("store=\"memory\""));

    let (code, stderr) = run_serve(&["--store", "memory", "--store-file", &file], None);
    assert!(code == Some(2) && stderr.contains("--store-file"), "{stderr}");
    let wrong = write_file("wrong-store-url", "redis:user:hunter2@host");
    let (code, stderr) = run_serve(&["--store-file", &wrong], None);
    assert!(code == Some(1) && stderr.starts_with(&format!("{wrong}: not a store, expected ")), "{stderr}");
    assert!(!stderr.contains("hunter2"), "{stderr}");
    fs::remove_file(database).expect("it was made");
}

#[test]
fn too_many_open_files_are_logged_with_their_cause() {
    let program = Program::start(&["--grpc", "off", "--resp", "off"]);
    let open = fs::read_dir(format!("/proc/{}/fd", program.id())).expect("a process that runs").count();
    let limit = format!("--nofile={0}:{0}", open + 2);
    let limited = Command::new("prlimit").args(["--pid", &program.id().to_string(), &limit]).status().expect("prlimit");
    assert!(limited.success());
    let connect = |_| TcpStream::connect(program.http.expect("a port")).expect("a connection");
    let clients: Vec<_> = (0..10).map(connect).collect();
    let event = program.wait_for_event("a connection cannot be accepted");
    let field = |name: &str| event[name].as_str().unwrap_or_default();
    assert!(field("error").contains("Too many open files") && field("advice").contains("ulimit -n"), "{event}");
    drop(clients);
    assert_eq!(get(&program, "/healthz"), "ok\n", "it goes on");
}

fn run_serve(arguments: &[&str], token: Option<&str>) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.args(["serve", "--log", "json"]).args(arguments).env_remove("TIDEGATE_TOKEN").env_remove("TIDEGATE_STORE");
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
