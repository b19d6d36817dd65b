//! Arguments, help and samples.

use crate::cli::{VALID_LINE, api_config, run, simulate, write_file};

#[test]
fn samples_replay_successfully() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/samples");
    let (config, trace) = (format!("{folder}/demo.toml"), format!("{folder}/demo.jsonl"));
    let ran = run(&["simulate", "--config", &config, "--trace", &trace]);
    assert_eq!(ran.code, 0);
    assert_eq!(ran.stdout.lines().count(), std::fs::read_to_string(trace).unwrap().lines().count());
    for word in ["login", "api", "search", "export", "allowed", "denied", "would have denied"] {
        assert!(ran.stderr.contains(word), "{word} in {}", ran.stderr);
    }
}

#[test]
fn wrong_usage_exits_with_2_and_points_to_help() {
    let config = api_config();
    let client_ca_without_grpc =
        ["serve", "--grpc", "off", "--tls-client-ca", "x", "--tls-cert", "x", "--tls-key", "x"];
    let cases: [&[&str]; 9] = [
        &["serv"],
        &["check"],
        &["simulate"],
        &["simulate", "--config", &config],
        &["simulate", "--config", &config, "--trace", "-", "--max-keys", "0"],
        &["simulate", "--config", &config, "--trace", "-", "--max-keys", "many"],
        &["simulate", "--config", &config, "--trace", "-", "--fast"],
        &["--verbose"],
        &client_ca_without_grpc,
    ];
    for arguments in cases {
        let ran = run(arguments);
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{arguments:?}");
        assert!(ran.stderr.starts_with("error: "), "{}", ran.stderr);
        assert!(ran.stderr.contains("--help"), "{}", ran.stderr);
    }
}

#[test]
fn help_has_examples() {
    for arguments in [&["--help"][..], &["check", "--help"], &["simulate", "--help"], &["bench", "--help"]] {
        let ran = run(arguments);
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
        assert!(ran.stdout.contains("Examples:\n  tidegate"), "{}", ran.stdout);
    }
    assert_eq!(run(&["--version"]).stdout, format!("tidegate {}\n", env!("CARGO_PKG_VERSION")));
}

/// The help says what a replay writes to a store, and that it is removed.
#[test]
fn simulate_help_lists_stores_and_what_a_replay_writes() {
    let help = run(&["simulate", "--help"]).stdout;
    let words = ["--store <STORE>", "[default: memory]", "sqlite:PATH", "redis://", "postgres://", "without TLS"];
    for word in words.into_iter().chain(["simulate-PID-TIME", "removes them", "[default: 1000000]"]) {
        assert!(help.contains(word), "{word} in {help}");
    }
}

/// The example of the help of `simulate` works.
#[test]
fn example_line_in_help_is_accepted() {
    let help = run(&["simulate", "--help"]).stdout;
    let line = help.lines().find(|line| line.contains("\"at_ms\"")).expect("a line of a trace");
    assert_eq!(simulate(&api_config(), line).stdout, simulate(&api_config(), VALID_LINE).stdout);
}

#[test]
fn example_config_in_help_is_valid() {
    let help = run(&["check", "--help"]).stdout;
    let (_, config) = help.split_once("A small config:\n").expect("a config");
    let (config, _) = config.split_once("\nExit code").expect("an end");
    let ran = run(&["check", &write_file("help.toml", config)]);
    assert!(ran.stdout.ends_with(": ok, 2 limits\n"), "{}{}", ran.stdout, ran.stderr);
}
