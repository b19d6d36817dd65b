use crate::{api, file, run};

#[test]
fn a_good_config_is_ok() {
    let config = api();
    let ran = run(&["check", &config]);
    assert_eq!((ran.code, ran.stdout, ran.stderr), (0, format!("{config}: ok, 1 limit\n"), String::new()));

    let yaml = "limits:\n  a: &a {algorithm: sliding_log, rate: 1, period: 1s}\n  b: *a\nenvoy: {configs: [x.yaml]}\n";
    let yaml = file("two.yaml", yaml);
    let envoy = file("envoy.toml", "[envoy]\nconfigs = [\"a.yaml\", \"b.yaml\"]\n");
    let ran = run(&["check", &yaml, &envoy]);
    let expected = format!("{yaml}: ok, 2 limits, 1 envoy config\n{envoy}: ok, 0 limits, 2 envoy configs\n");
    assert_eq!((ran.code, ran.stdout), (0, expected));
}

#[test]
fn everything_that_is_wrong_is_told_and_the_exit_code_is_1() {
    let good = api();
    let bad = file("bad.toml", "[limits.api]\nalgoritm = \"token_bucket\"\nrate = 0\nperiod = \"1m\"\n");
    let ran = run(&["check", &bad, &good, "/nonexistent/limits.toml"]);
    assert_eq!((ran.code, ran.stdout), (1, format!("{good}: ok, 1 limit\n")));
    let algorithms = r#"one of "token_bucket", "fixed_window", "sliding_window", "sliding_log""#;
    let expected = format!(
        "{bad}:1:9: limits.api.algorithm: missing, expected {algorithms}\n\
         {bad}:2:1: limits.api.algoritm: unknown field, did you mean `algorithm`?\n\
         {bad}:3:8: limits.api.rate: found 0, expected a whole number from 1 to 4294967295\n\
         /nonexistent/limits.toml: cannot be read: No such file or directory (os error 2)\n"
    );
    assert_eq!(ran.stderr, expected);
}
