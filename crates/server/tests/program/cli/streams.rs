//! Input and output of `simulate`: files, pipes and memory.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::Stdio;

use crate::cli::{VALID_LINE, api_config, run, simulate, tidegate, write_file};

/// A deterministic trace of many lines.
fn trace_lines(lines: u64) -> String {
    let mut random = 1_u64;
    let line = |at| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (key, cost) = ((random >> 40) % 5_000, 1 + (random >> 60) % 3);
        format!("{{\"at_ms\":{at},\"op\":\"limit\",\"limit\":\"api\",\"key\":\"user-{key}\",\"cost\":{cost}}}\n")
    };
    (0..lines).map(line).collect()
}

#[test]
fn file_and_standard_input_give_equal_output_twice() {
    let trace = trace_lines(5_000);
    let path = write_file("many.jsonl", &trace);
    let from_file = || run(&["simulate", "--config", &api_config(), "--trace", &path]);
    let (first, second, piped) = (from_file(), from_file(), simulate(&api_config(), &trace));
    assert_eq!(first.stdout.lines().count(), 5_000);
    assert_eq!((&first.stdout, &first.stderr), (&second.stdout, &second.stderr));
    assert_eq!((&first.stdout, &first.stderr), (&piped.stdout, &piped.stderr));
}

#[test]
fn cr_lf_blank_lines_and_a_missing_last_newline_are_accepted() {
    let trace = trace_lines(100);
    let with_cr = trace.replace('\n', "\r\n");
    assert_eq!(simulate(&api_config(), with_cr.trim_end()).stdout, simulate(&api_config(), &trace).stdout);
    let blank = simulate(&api_config(), format!("\r\n\n  \n{VALID_LINE}\r\n\n"));
    assert_eq!(blank.stdout, simulate(&api_config(), VALID_LINE).stdout);
    let nothing = simulate(&api_config(), "");
    assert_eq!((nothing.code, nothing.stdout.as_str()), (0, ""));
}

#[test]
fn summary_only_prints_no_decisions() {
    let path = write_file("summary.jsonl", trace_lines(100));
    let ran = run(&["simulate", "--config", &api_config(), "--trace", &path, "--summary-only"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, ""));
    assert!(ran.stderr.starts_with("limit "), "{}", ran.stderr);
}

#[test]
fn too_little_capacity_for_keys_is_reported() {
    let path = write_file("room.jsonl", trace_lines(20_000));
    let with = |max: &str| {
        run(&["simulate", "--config", &api_config(), "--trace", &path, "--max-keys", max, "--summary-only"])
    };
    assert!(with("10").stderr.contains("these decisions are not exact"), "{}", with("10").stderr);
    assert!(!with("5000").stderr.contains("warning"), "{}", with("5000").stderr);
}

/// State that is larger than a slot has its own capacity.
#[test]
fn too_little_capacity_for_logs_is_reported() {
    let config = write_file("logs.toml", "[limits.api]\nalgorithm = \"sliding_log\"\nrate = 1000\nperiod = \"1h\"\n");
    let line = |n| {
        format!("{{\"at_ms\":{},\"op\":\"limit\",\"limit\":\"api\",\"key\":\"{}\",\"cost\":1}}\n", n / 100, n % 100)
    };
    let path = write_file("logs.jsonl", (0..100_000).map(line).collect::<String>());
    let with =
        |max: &str| run(&["simulate", "--config", &config, "--trace", &path, "--max-bytes", max, "--summary-only"]);
    assert!(with("1048576").stderr.contains("a larger --max-bytes"), "{}", with("1048576").stderr);
    assert!(!with("16777216").stderr.contains("warning"), "{}", with("16777216").stderr);
}

#[test]
fn going_back_in_time_is_reported() {
    let later = VALID_LINE.replace("\"at_ms\":0", "\"at_ms\":5");
    let ran = simulate(&api_config(), format!("{later}\n{VALID_LINE}\n"));
    assert_eq!(ran.code, 0);
    assert!(ran.stderr.contains("warning: 1 lines go back in time"), "{}", ran.stderr);
}

/// As `tidegate simulate ... | head -n 1` does.
#[test]
fn a_closed_output_ends_the_program_quietly() {
    let path = write_file("pipe.jsonl", trace_lines(20_000));
    let mut command = tidegate();
    command
        .args(["simulate", "--config", &api_config(), "--trace", &path])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    let mut reader = BufReader::with_capacity(64, child.stdout.take().unwrap());
    reader.read_line(&mut line).unwrap();
    drop(reader);
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert!(line.starts_with("{\"allowed\":true"), "{line}");
    assert_eq!((child.wait().unwrap().code(), stderr.as_str()), (Some(0), ""));

    let wrong = write_file("nobody-reads-on.toml", "[limits.api]\n");
    let mut child =
        tidegate().args(["check", &api_config(), &wrong]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(1), "what is wrong is wrong, though nobody reads what is right");

    for arguments in [&["--help"][..], &["check", &api_config()]] {
        let mut child = tidegate().args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let mut stderr = String::new();
        child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        assert_eq!((child.wait().unwrap().code(), stderr.as_str()), (Some(0), ""), "{arguments:?}");
    }
}

/// Returns the peak memory of a process, in KiB.
#[cfg(target_os = "linux")]
fn peak_memory_kib(id: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("the peak");
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("a number")
}

#[cfg(target_os = "linux")]
#[test]
fn memory_does_not_grow_with_the_trace() {
    let mut command = tidegate();
    command.args(["simulate", "--config", &api_config(), "--trace", "-", "--max-keys", "10000"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let stdout = BufReader::new(child.stdout.take().unwrap());
    let counter = std::thread::spawn(move || stdout.lines().count());
    let mut stdin = child.stdin.take().unwrap();
    let part = trace_lines(10_000);
    stdin.write_all(part.as_bytes()).unwrap();
    for _ in 0..29 {
        stdin.write_all(part.as_bytes()).unwrap();
    }
    // All input except the contents of the pipe has been read, and the process still runs.
    let peak = peak_memory_kib(child.id());
    drop(stdin);
    assert_eq!(counter.join().unwrap(), 300_000);
    assert!(child.wait().unwrap().success());
    assert!(peak < 24 << 10, "{peak} KiB for 20 MB of trace");
}
