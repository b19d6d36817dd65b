//! Malformed requests to the HTTP API.

use tidegate_testkit::Random;

use super::{corrupt, http2, random_bytes};

const PATHS: [&str; 9] =
    ["/v1/limit", "/v1/check", "/v1/reserve", "/v1/refund", "/v1/reset", "/v1/all", "/v1/batch", "/v1/apply", "/json"];

const BODIES: [&str; 5] = [
    r#"{"limit":"shop.user","key":"u","cost":1}"#,
    r#"{"limit":"shop.user","key":["a","b"]}"#,
    r#"{"requests":[{"limit":"shop.user","key":"u"},{"limit":"shop.user","key":null}]}"#,
    r#"{"domain":"shop","descriptors":[{"entries":[{"key":"user","value":"u"}]}]}"#,
    r#"{"requests":[]}"#,
];

pub(crate) fn random_input(random: &mut Random) -> Vec<u8> {
    match random.below(10) {
        0 => random_bytes(random, 13),
        1..=3 => {
            let bytes = valid_requests(random);
            corrupt(random, bytes)
        }
        4 => absurd_lengths(random),
        5 => deep_json(random),
        6 => wrong_values(random),
        7 => many_headers(random),
        8 => [&b"POST /v1/limit HTTP/1.1\r\nhost: localhost\r\n"[..], &random_bytes(random, 12)].concat(),
        _ => http2::random_input(random),
    }
}

fn valid_requests(random: &mut Random) -> Vec<u8> {
    let body = random.pick(&BODIES);
    let one = match random.below(3) {
        0 => format!(
            "GET {} HTTP/1.1\r\nhost: localhost\r\n\r\n",
            random.pick(&["/v1/limits", "/metrics", "/", "/v1/auth?limit=shop.user&key=u"])
        ),
        1 => {
            let head = format!(
                "POST {} HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n",
                random.pick(&PATHS)
            );
            format!("{head}{:x}\r\n{body}\r\n0\r\n\r\n", body.len())
        }
        _ => post(random.pick(&PATHS), body),
    };
    one.repeat(random.between(1, 3) as usize).into_bytes()
}

fn post(path: &str, body: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

/// Absurd lengths.
fn absurd_lengths(random: &mut Random) -> Vec<u8> {
    let lengths = [
        "18446744073709551615",
        "18446744073709551616",
        "9223372036854775807",
        "4294967296",
        "65537",
        "-1",
        "1e9",
        "0x10",
        "",
    ];
    let chunks = [
        "ffffffffffffffff",
        "fffffffffffffffff",
        "7fffffffffffffff",
        "ffffffff",
        "-1",
        "g",
        "",
        "00000000000000000001",
    ];
    let (path, more) = (random.pick(&PATHS), "x".repeat(random.of_bits(1, 17) as usize));
    match random.below(3) {
        0 => format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n{more}",
            random.pick(&lengths)
        ),
        1 => {
            let chunk = random.pick(&chunks);
            format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n{chunk}\r\n{more}")
        }
        // A chunk extension that never ends, and two contradicting lengths.
        _ => format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n1;{more}"
        ),
    }
    .into_bytes()
}

/// Deeply nested JSON, with or without an end.
fn deep_json(random: &mut Random) -> Vec<u8> {
    let depth = random.between(100, 30_000) as usize;
    let (open, close) = random.pick(&[("[", "]"), ("{\"key\":", "}"), ("[{\"requests\":", "}]")]);
    let close = if random.one_in(2) { close.repeat(depth) } else { String::new() };
    let (field, deep) =
        (random.pick(&["limit", "key", "requests", "descriptors", "quota", "other"]), open.repeat(depth));
    let body = if random.one_in(2) { format!("{{\"{field}\":{deep}0{close}}}") } else { format!("{deep}0{close}") };
    post(random.pick(&PATHS), &body).into_bytes()
}

/// JSON whose values are wrong.
fn wrong_values(random: &mut Random) -> Vec<u8> {
    let values = [
        "-1",
        "1e400",
        "18446744073709551616",
        "0.1",
        "\"\\ud800\"",
        "\"\\u0000\"",
        "[[]]",
        "true",
        "NaN",
        "\"\u{1f600}\"",
    ];
    let long = format!("\"{}\"", "\\u0041".repeat(random.of_bits(1, 14) as usize));
    let mut value = || if random.one_in(5) { long.clone() } else { random.pick(&values).to_owned() };
    let one = format!(r#"{{"limit":"shop.user","key":{},"cost":{}}}"#, value(), value());
    let body = if random.one_in(2) { one } else { format!(r#"{{"requests":[{}]}}"#, vec![one; 20].join(",")) };
    post(random.pick(&PATHS), &body).into_bytes()
}

/// More and larger headers than any server reads.
fn many_headers(random: &mut Random) -> Vec<u8> {
    let end = if random.one_in(2) { "\r\n" } else { "" };
    let headers = match random.below(3) {
        0 => (0..random.between(100, 3_000)).map(|number| format!("x-{number}: {number}\r\n")).collect(),
        1 => format!("x: {}\r\n", "y".repeat(random.between(60_000, 300_000) as usize)),
        _ => "y".repeat(random.between(60_000, 300_000) as usize),
    };
    format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\n{headers}{end}").into_bytes()
}
