//! Runs of `bench` with Ctrl-C, lost connections and missing responses.

use tidegate_servers::signal;

use super::fake_server::Action;
use super::{FakeServer, counts, figures};
use crate::cli::tidegate;

#[cfg(unix)]
#[test]
fn ctrl_c_ends_the_test_with_its_results() {
    for rate in [&[][..], &["--rate", "100"]] {
        let server = FakeServer::resp(|_| Action::Allow);
        let ran = interrupt_after_allowed(&server, 20, rate);
        let figures = figures(&ran);
        assert_eq!(counts(&figures), server.counts());
        assert!(figures["seconds"].as_f64().unwrap() < 3_000.0);
    }
}

#[cfg(unix)]
#[test]
fn a_lost_connection_is_an_error_and_is_opened_again() {
    fn hang_up_every_tenth(number: u64) -> Action {
        if number % 10 == 9 { Action::HangUp } else { Action::Allow }
    }
    for server in [FakeServer::http(hang_up_every_tenth), FakeServer::resp(hang_up_every_tenth)] {
        let figures = figures(&interrupt_after_allowed(&server, 25, &["--connections", "1"]));
        assert_eq!(counts(&figures), server.counts(), "{}", server.url);
        assert_eq!(figures["errors_by_kind"]["connection lost"], figures["errors"]);
        assert!(server.counts()[2] >= 2);
    }
}

/// A request without a response is an error, and the run does not wait for it forever.
#[test]
fn requests_without_a_response_are_reported() {
    fn ignore_after_eight(number: u64) -> Action {
        if number < 8 { Action::Allow } else { Action::Ignore }
    }
    let server = FakeServer::http(ignore_after_eight);
    let figures = figures(&super::bench(&[&server.url]));
    assert_eq!(counts(&figures), server.counts());
    assert_eq!(figures["errors_by_kind"]["no answer"], 4, "one for each connection: {figures}");
}

#[test]
fn a_picture_is_drawn_unless_it_is_off() {
    let server = FakeServer::resp(|number| if number % 2 == 0 { Action::Allow } else { Action::Deny });
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("bench-pictures");
    std::fs::create_dir_all(&folder).expect("a folder");
    let picture = folder.join("tidegate-bench.svg");
    let run_there = |more: &[&str]| {
        let _ = std::fs::remove_file(&picture);
        let mut command = tidegate();
        command.args(["bench", &server.url, "--duration", "500ms"]).args(more).current_dir(&folder);
        assert!(command.output().expect("it runs").status.success());
        std::fs::read_to_string(&picture).ok()
    };
    assert_eq!(run_there(&["--picture", "off"]), None);
    let svg = run_there(&[]).expect("without being told");
    for class in ["allowed", "denied", "p50", "p99", "max"] {
        assert!(svg.contains(&format!("class=\"{class}\"")), "{class}");
    }
}

/// Runs a test of an hour, which Ctrl-C ends after the server has allowed `least` requests.
#[cfg(unix)]
fn interrupt_after_allowed(server: &FakeServer, least: u64, more: &[&str]) -> crate::cli::CliOutput {
    use std::process::Stdio;

    let mut command = tidegate();
    command.args(["bench", &server.url, "--duration", "1h", "--json", "--picture", "off"]).args(more);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    while server.counts()[0] < least {
        assert!(child.try_wait().expect("a child").is_none(), "it ends before that");
        std::thread::yield_now();
    }
    let id = child.id();
    assert!(signal([("INT", id)]), "it is gone");
    let output = child.wait_with_output().expect("it ends");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    let code = output.status.code().expect("it ends by itself");
    crate::cli::CliOutput { id, stdout: text(output.stdout), stderr: text(output.stderr), code }
}
