//! `tidegate check`.

use std::fs;

use crate::cli::{api_config, run, run_with_input, write_file};

#[test]
fn a_valid_config_is_ok() {
    let config = api_config();
    let ran = run(&["check", &config]);
    assert_eq!((ran.code, ran.stdout, ran.stderr), (0, format!("{config}: ok, 1 limit\n"), String::new()));

    let yaml = "limits:\n  a: &a {algorithm: sliding_log, rate: 1, period: 1s}\n  b: *a\nenvoy: {configs: [x.yaml]}\n";
    let yaml = write_file("two.yaml", yaml);
    for domain in ["x", "a", "b"] {
        let rules = "descriptors: [{key: k, rate_limit: {unit: second, requests_per_unit: 1}}]";
        write_file(&format!("{domain}.yaml"), format!("domain: {domain}\n{rules}\n"));
    }
    let envoy = write_file("envoy.toml", "[envoy]\nconfigs = [\"a.yaml\", \"b.yaml\"]\n");
    let ran = run(&["check", &yaml, &envoy]);
    let expected = format!("{yaml}: ok, 2 limits, 1 envoy config\n{envoy}: ok, 0 limits, 2 envoy configs\n");
    assert_eq!((ran.code, ran.stdout), (0, expected));
}

/// A pipe can be read only once.
#[test]
fn a_config_may_come_over_a_pipe() {
    let config = fs::read_to_string(api_config()).unwrap();
    let ran = run_with_input(&["check", "/dev/stdin"], &config);
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (0, "/dev/stdin: ok, 1 limit\n", ""));
    let ran = run_with_input(&["check", "/dev/stdin"], config.replace("rate =", "rat ="));
    assert!(ran.code == 1 && ran.stderr.contains("rat"), "{}", ran.stderr);
}

#[test]
fn files_named_by_a_config_are_checked_with_it() {
    let rules = |key: &str| {
        format!("domain: d\ndescriptors: [{{key: {key}, rate_limit: {{unit: eon, requests_per_unit: 1}}}}]\n")
    };
    let wrong = write_file("named-wrong.yaml", rules("k"));
    let names_it = write_file("names-wrong.toml", "[envoy]\nconfigs = [\"named-wrong.yaml\"]\n");
    let ran = run(&["check", &names_it]);
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""));
    assert!(ran.stderr.starts_with(&format!("{wrong}:2:")), "{}", ran.stderr);

    write_file("named-good.yaml", rules("k").replace("eon", "day"));
    let limit = "[limits.\"d.k\"]\nalgorithm = \"sliding_log\"\nrate = 1\nperiod = \"1s\"\n";
    let twice = write_file("names-twice.toml", format!("{limit}[envoy]\nconfigs = [\"named-good.yaml\"]\n"));
    let ran = run(&["check", &twice]);
    assert_eq!((ran.code, ran.stderr), (1, format!("{twice}: there are two limits named \"d.k\"\n")));
}

/// Files are checked together, as they are served together.
#[test]
fn envoy_configs_of_a_folder_are_checked_together() {
    let rules = |name: &str, domain: &str, key: &str| {
        let rule = format!("{{key: {key}, rate_limit: {{unit: day, requests_per_unit: 1}}}}");
        write_file(name, format!("domain: {domain}\ndescriptors: [{rule}]\n"))
    };
    let [one, same, other] = [("one", "a"), ("same", "a"), ("other", "b")]
        .map(|(name, domain)| rules(&format!("together-{name}.yaml"), domain, "k"));
    assert_eq!(run(&["check", &one, &other, &api_config()]).code, 0);
    let ran = run(&["check", &one, &other, &same]);
    assert_eq!((ran.code, ran.stdout.lines().count()), (1, 3));
    assert!(ran.stderr.starts_with(&format!("{same}:1:9: domain: ")), "{}", ran.stderr);

    // Other folders are separate. A file that is named twice counts once.
    let folder = std::path::Path::new(&one).parent().unwrap().join("another");
    std::fs::create_dir_all(&folder).unwrap();
    let elsewhere = folder.join("same.yaml");
    std::fs::copy(&same, &elsewhere).unwrap();
    let again = folder.join("../together-one.yaml");
    let ran = run(&["check", &one, &one, again.to_str().unwrap(), elsewhere.to_str().unwrap()]);
    assert_eq!((ran.code, ran.stdout.lines().count(), ran.stderr.as_str()), (0, 4, ""));
}

#[test]
fn every_error_is_reported_with_exit_code_1() {
    let good = api_config();
    let bad = write_file("bad.toml", "[limits.api]\nalgoritm = \"token_bucket\"\nrate = 0\nperiod = \"1m\"\n");
    let ran = run(&["check", &bad, &good, "/nonexistent/limits.toml"]);
    assert_eq!((ran.code, ran.stdout), (1, format!("{good}: ok, 1 limit\n")));
    let algorithms = r#"one of "token_bucket", "fixed_window", "sliding_window", "sliding_log", "concurrency""#;
    let expected = format!(
        "{bad}:1:9: limits.api.algorithm: missing, expected {algorithms}\n\
         {bad}:2:1: limits.api.algoritm: unknown field, did you mean `algorithm`?\n\
         {bad}:3:8: limits.api.rate: found 0, expected a whole number from 1 to 4294967295\n\
         /nonexistent/limits.toml: cannot be read: No such file or directory (os error 2)\n"
    );
    assert_eq!(ran.stderr, expected);
}

#[test]
fn an_envoy_config_is_checked_as_one() {
    let good = "domain: shop\ndescriptors:\n  - key: path\n    rate_limit: {unit: minute, requests_per_unit: 5}\n    \
                descriptors:\n      - {key: user, rate_limit: {unit: day, requests_per_unit: 9}}\n";
    let good = write_file("check-shop.yaml", good);
    let ours = api_config();
    let ran = run(&["check", &good, &ours]);
    let expected = format!("{good}: ok, 2 limits, in Envoy's format\n{ours}: ok, 1 limit\n");
    assert_eq!((ran.code, ran.stdout, ran.stderr), (0, expected, String::new()));

    let bad = "domain: shop\ndescriptors:\n  - key: path\n    rate_limit: {unit: eon, requests_per_unit: 5}\n  \
               - key: path\n    ratelimit: {}\n";
    let bad = write_file("check-bad.yaml", bad);
    let ran = run(&["check", &bad, &good]);
    assert_eq!((ran.code, ran.stdout), (1, format!("{good}: ok, 2 limits, in Envoy's format\n")));
    let places: Vec<_> = ran.stderr.lines().filter_map(|line| line.strip_prefix(&bad)?.split_once(": ")).collect();
    assert_eq!(
        places.iter().map(|(place, _)| *place).collect::<Vec<_>>(),
        [":4:24", ":5:10", ":6:5"],
        "{}",
        ran.stderr
    );
}
