//! Traces and configs that `simulate` refuses.

use crate::cli::{VALID_LINE, api_config, run, simulate, write_file};

const LIKE: &str = r#"expected a line such as {"at_ms":0,"op":"limit","limit":"api","key":"u1","cost":1}"#;
const COST: &str = "expected a whole number from 1 to 18446744073709551615";
const KEY: &str = "expected a text, a list of texts, null or `{\"client\": ...}` for `key`";
const OPS: &str = "expected limit, check, reserve, refund, reset, admit, renew or release";
const LEASE: &str = "expected 16 lower-case hexadecimal digits";
const MILLIS: &str = "expected a whole number of milliseconds from 0 to 9007199254740";

/// Every bad line comes third, after a good one and a blank one.
#[test]
fn a_bad_line_is_reported_with_its_number() {
    let with = |rest: &str| format!(r#"{{"at_ms":0,"op":"limit","limit":"api",{rest}}}"#);
    let cases = [
        ("x".to_owned(), format!("3: not a JSON object, {LIKE}")),
        ("[0,\"limit\",\"api\",\"u1\"]".to_owned(), format!("3: not a JSON object, {LIKE}")),
        ("{".to_owned(), format!("3:1: EOF while parsing an object, {LIKE}")),
        (format!("{VALID_LINE} x"), format!("3:51: trailing characters, {LIKE}")),
        ("{\"at_ms\":0,}".to_owned(), format!("3:12: trailing comma, {LIKE}")),
        (with("\"key\":\"u1\",\"cost\":0"), format!("3:57: cost: found 0, {COST}")),
        (with("\"key\":\"u1\",\"cost\":-1"), format!("3:58: cost: found -1, {COST}")),
        (with("\"key\":\"u1\",\"cost\":1.5"), format!("3:59: cost: found 1.5, {COST}")),
        (
            with("\"key\":\"u1\",\"cost\":18446744073709551616"),
            format!("3:76: cost: found a number out of range, {COST}"),
        ),
        (with("\"key\":\"u1\",\"cost\":\"1\""), format!("3:59: invalid type: string \"1\", {COST} for `cost`")),
        (with("\"key\":\"u1\",\"cost\":null"), format!("3:60: invalid type: null, {COST} for `cost`")),
        (
            with("\"key\":[]"),
            "3:46: key: found an empty list, expected at least one text in it (null is everybody)".to_owned(),
        ),
        (with("\"key\":5"), format!("3:45: invalid type: integer `5`, {KEY}")),
        (with("\"key\":[\"a\",5]"), "3:50: invalid type: integer `5`, expected a string".to_owned()),
        (with("\"cost\":1"), format!("3:47: missing field `key`, {LIKE}")),
        (
            with(&format!("\"key\":\"{}\"", "x".repeat(4_097))),
            "3: key: found 4097 bytes, expected at most 4096".to_owned(),
        ),
        (
            with(&format!("\"key\":[\"{0}\",\"{0}\"]", "é".repeat(1_025))),
            "3: key: found 4101 bytes, expected at most 4096".to_owned(),
        ),
        (
            with(&format!("\"key\":\"{}\"", "x".repeat(70_000))),
            "3: the line is too long, expected at most 65536 bytes".to_owned(),
        ),
        ("x".repeat(5_000_000), "3: the line is too long, expected at most 65536 bytes".to_owned()),
        // The column counts characters.
        (
            with("\"key\":\"é\",\"who\":1"),
            "3:53: unknown field `who`, expected one of `at_ms`, `op`, `limit`, `key`, `cost`, `lease`".to_owned(),
        ),
        (with("\"key\":\"u1\",\"key\":\"u2\""), format!("3:54: duplicate field `key`, {LIKE}")),
        (VALID_LINE.replace("\"op\":\"limit\",", ""), format!("3:36: missing field `op`, {LIKE}")),
        (VALID_LINE.replace("\"op\":\"limit\"", "\"op\":\"take\""), format!("3:22: op: found \"take\", {OPS}")),
        (
            VALID_LINE.replace("\"op\":\"limit\"", "\"op\":{\"limit\":null}"),
            format!("3:16: invalid type: map, {OPS} for `op`"),
        ),
        (
            VALID_LINE.replace("\"op\":\"limit\"", "\"op\":\"admit\""),
            "3: lease: missing, expected the lease to admit".to_owned(),
        ),
        (
            with("\"key\":\"u1\",\"lease\":\"00000000000000ff\""),
            "3: lease: found 00000000000000ff, expected none beside limit".to_owned(),
        ),
        (with("\"key\":\"u1\",\"lease\":\"FF\""), format!("3:61: lease: found \"FF\", {LEASE}")),
        (with("\"key\":\"u1\",\"lease\":255"), format!("3:60: invalid type: integer `255`, {LEASE} for `lease`")),
        (
            VALID_LINE.replace("\"op\":\"limit\"", "\"op\":\"renew\",\"lease\":\"00000000000000ff\""),
            "3: limit \"api\" cannot do that: it counts units, and has no leases: `admit`, `renew` and `release` are for \
             `concurrency`"
                .to_owned(),
        ),
        (VALID_LINE.replace("\"at_ms\":0", "\"at_ms\":-1"), format!("3:11: at_ms: found -1, {MILLIS}")),
        (VALID_LINE.replace("\"at_ms\":0", "\"at_ms\":0.5"), format!("3:12: at_ms: found 0.5, {MILLIS}")),
        (VALID_LINE.replace("\"at_ms\":0", "\"at_ms\":9007199254741"), format!("3:22: at_ms: found 9007199254741, {MILLIS}")),
        (VALID_LINE.replace("\"api\"", "\"apis\""), "3: there is no limit named \"apis\": expected one of api".to_owned()),
        (VALID_LINE.replace("\"api\"", "7"), "3:33: invalid type: integer `7`, expected a string".to_owned()),
    ];
    let decision = simulate(&api_config(), VALID_LINE).stdout;
    for (line, expected) in cases {
        let ran = simulate(&api_config(), format!("{VALID_LINE}\n\n{line}\n{VALID_LINE}\n"));
        assert_eq!(ran.code, 1, "{line:.80}");
        assert_eq!(ran.stdout, decision, "{line:.80}");
        assert_eq!(ran.stderr, format!("stdin:{expected}\n"));
    }
}

#[test]
fn input_just_within_bounds_is_accepted() {
    let key = |key: &str| VALID_LINE.replace("\"u1\"", key);
    let trace = [
        key(&format!("\"{}\"", "x".repeat(4_096))),
        key(&format!("\"{}\"", "\\u0041".repeat(4_096))),
        format!("{VALID_LINE}{}", " ".repeat(65_536 - VALID_LINE.len())),
        VALID_LINE.replace("\"key\"", "\"cost\":18446744073709551615,\"key\""),
        VALID_LINE.replace("\"at_ms\":0", "\"at_ms\":9007199254740"),
        format!("\t {VALID_LINE}"),
    ];
    let ran = simulate(&api_config(), trace.join("\n"));
    assert_eq!((ran.code, ran.stdout.lines().count()), (0, trace.len()), "{}", ran.stderr);
}

#[test]
fn errors_name_the_trace() {
    let trace =
        write_file("bad.jsonl", format!("{VALID_LINE}\r\n{}\r\n", VALID_LINE.replace("u1\"", "u1\",\"cost\":0")));
    let ran = run(&["simulate", "--config", &api_config(), "--trace", &trace]);
    assert_eq!((ran.code, ran.stderr), (1, format!("{trace}:2:57: cost: found 0, {COST}\n")));
    for missing in ["/nonexistent/trace.jsonl", env!("CARGO_TARGET_TMPDIR")] {
        let ran = run(&["simulate", "--config", &api_config(), "--trace", missing]);
        assert_eq!((ran.code, ran.stdout.as_str()), (1, ""));
        assert!(ran.stderr.starts_with(&format!("{missing}: cannot be read: ")), "{}", ran.stderr);
    }
}

#[test]
fn a_config_is_applied_whole_or_not_at_all() {
    let good = std::fs::read_to_string(api_config()).unwrap();
    let config =
        write_file("half.toml", format!("{good}[limits.b]\nalgorithm = \"sliding_log\"\nrate = 1\nperiod = \"x\"\n"));
    let ran = simulate(&config, VALID_LINE);
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""));
    let place = format!("{config}:8:10: limits.b.period: found \"x\", expected ");
    assert!(ran.stderr.starts_with(&place), "{}", ran.stderr);

    let config = write_file("none.toml", "[envoy]\nconfigs = [\"a.yaml\"]\n");
    let ran = simulate(&config, VALID_LINE);
    assert_eq!(
        (ran.code, ran.stderr),
        (
            1,
            format!(
                "{config}: no limits but Envoy's: those of one file are replayed with --config {}\n",
                write_file("a.yaml", "")
            )
        )
    );
    let config = write_file("both.toml", format!("{good}[envoy]\nconfigs = [\"a.yaml\"]\n"));
    let ran = simulate(&config, VALID_LINE);
    assert_eq!(ran.code, 0);
    assert!(ran.stderr.starts_with(&format!("{config}: its limits are replayed, and not Envoy's")), "{}", ran.stderr);
}

#[test]
fn unsupported_operations_are_reported() {
    let config = "[limits.a]\nalgorithm = 'fixed_window'\nrate = 4\nperiod = '1s'\nshards = 2\n";
    let ran = simulate(
        &write_file("cut.toml", config),
        r#"{"at_ms":0,"op":"release","limit":"a","key":"u","lease":"0123456789abcdef"}"#,
    );
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""));
    assert!(ran.stderr.starts_with("stdin:1: limit \"a\" cannot do that: "), "{}", ran.stderr);
}

#[test]
fn a_malformed_envoy_request_is_reported() {
    let config = "domain: shop\ndescriptors: [{key: path, rate_limit: {unit: minute, requests_per_unit: 5}}]\n";
    let config = write_file("bad-input-envoys.yaml", config);
    let good = r#"{"at_ms":0,"domain":"shop","descriptors":[{"entries":[{"key":"path","value":"/login"}]}]}"#;
    let like = format!("expected a line such as {good}");
    for (line, expected) in [
        ("x".to_owned(), format!("2: not a JSON object, {like}")),
        (good.replace("\"at_ms\":0,", ""), format!("2:79: missing field `at_ms`, {like}")),
        (good.replace("shop", ""), "2: rate limit domain must not be empty".to_owned()),
        (good.replace("\"domain\":\"shop\",", ""), "2: rate limit domain must not be empty".to_owned()),
        (
            r#"{"at_ms":0,"domain":"shop","descriptors":[]}"#.to_owned(),
            "2: rate limit descriptor list must not be empty".to_owned(),
        ),
        (
            VALID_LINE.to_owned(),
            "2:15: unknown field `op`, expected one of `at_ms`, `domain`, `descriptors`, `hitsAddend`, `hits_addend`"
                .to_owned(),
        ),
    ] {
        let ran = simulate(&config, format!("{good}\n{line}\n"));
        assert_eq!((ran.code, ran.stdout.lines().count()), (1, 1), "{line}");
        assert_eq!(ran.stderr, format!("stdin:{expected}\n"));
    }
}
