//! Collectors that are lost, silent or malformed.

use std::net::TcpListener;
use std::process::Command;

use tidegate_servers::free_port;

use crate::otlp::receiver::OtlpReceiver;
use crate::otlp::{Program, post_limit, write_config};

#[test]
fn a_lost_collector_is_logged_once_and_its_return_too() {
    let port = free_port().expect("a port");
    let silent_listener = TcpListener::bind(("127.0.0.1", port)).expect("bound");
    let address = silent_listener.local_addr().expect("bound");
    let arguments = ["--config", &write_config("gone.toml"), "--otlp", &format!("http://{address}")];
    let variables = [("OTEL_METRIC_EXPORT_INTERVAL", "20"), ("OTEL_BSP_SCHEDULE_DELAY", "600000")];
    let program = Program::start_with_env(&arguments, &variables);
    assert_eq!(post_limit(&program, "api", "u1")["allowed"], true);
    // An export is tried four times, so these are at least three failed exports.
    (0..12).for_each(|_| drop(silent_listener.accept().expect("somebody calls")));
    assert_eq!(post_limit(&program, "api", "u1")["allowed"], true);
    drop(silent_listener);
    let receiver = OtlpReceiver::start_at(address);
    assert_eq!(program.wait_for_log("the collector takes"), "the collector takes no metrics for now");
    assert_eq!(program.wait_for_log("the collector takes"), "the collector takes metrics again");
    let (status, log) = program.stop();
    assert!(status.success());
    assert!(!log.iter().any(|line| line.contains("the collector takes")), "{log:?}");
    let allowed = ("limit=api outcome=allowed".to_owned(), 2);
    assert!(receiver.points("tidegate.decisions").contains(&allowed), "nothing was lost meanwhile");
}

#[test]
fn a_silent_collector_costs_at_most_the_grace_period() {
    // Accepts connections and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").expect("bound");
    let collector = format!("http://{}", silent.local_addr().expect("bound"));
    let arguments = ["--config", &write_config("silent.toml"), "--otlp", &collector, "--grace", "1s"];
    // The server waits for an answer far longer than this test may take.
    let program = Program::start_with_env(&arguments, &[("OTEL_EXPORTER_OTLP_TIMEOUT", "600000")]);
    assert_eq!(post_limit(&program, "api", "u1")["allowed"], true);
    let (status, log) = program.stop();
    assert!(status.success());
    let count = |words: &str| log.iter().filter(|line| line.contains(words)).count();
    assert_eq!(count("the last traces and metrics did not reach the collector"), 1, "{log:?}");
}

#[test]
fn a_malformed_collector_address_is_refused() {
    for wrong in ["127.0.0.1:4317", "https://127.0.0.1:4317", "http://", "collector"] {
        let ran = Command::new(env!("CARGO_BIN_EXE_tidegate")).args(["serve", "--otlp", wrong]).output();
        let ran = ran.expect("the program");
        assert_eq!(ran.status.code(), Some(2), "{wrong}");
        let said = String::from_utf8(ran.stderr).expect("text");
        assert!(said.contains("expected a URL such as http://127.0.0.1:4317"), "{said}");
    }
}
