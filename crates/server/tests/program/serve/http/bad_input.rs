//! Malformed requests to the HTTP API.

use std::io::{Read, Write};
use std::net::TcpStream;

use reqwest::{Client, StatusCode};
use serde_json::Value;

use super::{post, start_server, url};

#[tokio::test]
async fn bad_input_is_a_problem_and_changes_nothing() {
    let (program, _config) = start_server(&[]);
    let long_key = format!(r#"{{"limit":"two","key":"{}"}}"#, "k".repeat(4_097));
    let deep = format!(r#"{{"limit":"two","key":{}"u"{}}}"#, "[".repeat(30_000), "]".repeat(30_000));
    let many = format!(r#"{{"requests":[{}]}}"#, vec![r#"{"limit":"two","key":"u"}"#; 1_001].join(","));
    let cases: [(&str, &str, u16, &str); 20] = [
        ("/v1/limit", "", 400, "not a JSON object"),
        ("/v1/limit", "{", 400, "EOF"),
        ("/v1/limit", "[]", 400, "not a JSON object"),
        ("/v1/limit", "\u{fffd}", 400, "not a JSON object"),
        ("/v1/limit", r#"{"limit":"two"}"#, 400, "missing field `key`"),
        ("/v1/limit", r#"{"key":"u"}"#, 400, "missing field `limit`"),
        ("/v1/limit", r#"{"limit":"two","key":"u","cost":0}"#, 400, "cost: found 0"),
        ("/v1/limit", r#"{"limit":"two","key":"u","cost":-1}"#, 400, "cost: found -1"),
        ("/v1/limit", r#"{"limit":"two","key":"u","cost":1.5}"#, 400, "cost: found 1.5"),
        ("/v1/limit", r#"{"limit":"two","key":"u","cost":"1"}"#, 400, "cost"),
        ("/v1/limit", r#"{"limit":"two","key":"u","at":1}"#, 400, "unknown field `at`"),
        ("/v1/limit", r#"{"limit":"two","key":[]}"#, 400, "key: found an empty list"),
        ("/v1/limit", r#"{"limit":"two","key":7}"#, 400, "a text, a list of texts, null or"),
        ("/v1/limit", r#"{"limit":"tow","key":"u"}"#, 404, "there is no limit named \"tow\""),
        ("/v1/limit", &long_key, 400, "expected at most 4096"),
        ("/v1/limit", &deep, 400, "key"),
        ("/v1/all", r#"{"requests":[]}"#, 400, "expected from 1 to 1000"),
        ("/v1/batch", &many, 400, "found 1001"),
        ("/v1/limt", "{}", 404, "nothing at this path"),
        ("/v1/limits", "{}", 405, "another method"),
    ];
    for (path, body, expected, said) in cases {
        let answer = Client::new().post(url(&program, path)).body(body.to_owned()).send().await.expect("an answer");
        assert_eq!(answer.headers()["content-type"], "application/problem+json", "{path} {said}");
        let (status, text) = (answer.status(), answer.text().await.expect("text"));
        let problem: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!((status.as_u16(), problem["status"].as_u64()), (expected, Some(expected.into())), "{text}");
        assert!(problem["detail"].as_str().expect("a text").contains(said), "{said}: {text}");
    }
    let (_, answer) = post(&program, "/v1/check", r#"{"limit":"two","key":"u"}"#).await;
    assert_eq!(answer["remaining"], 2);
}

/// Over a real socket, because a reset would discard the response.
#[test]
fn client_that_is_still_sending_reads_the_413() {
    let (program, _config) = start_server(&[]);
    let post = |more: &str| format!("POST /v1/limit HTTP/1.1\r\nhost: localhost\r\n{more}\r\n\r\n");
    let body = vec![b' '; 8 << 20];
    let whole = [post(&format!("content-length: {}", body.len())).as_bytes(), &body].concat();
    let cases = [whole, post(&format!("expect: 100-continue\r\ncontent-length: {}", u64::MAX >> 1)).into_bytes()];
    for request in cases {
        let mut stream = TcpStream::connect(program.http.expect("a port")).expect("a connection");
        stream.write_all(&request).expect("all of it is taken");
        let mut answer = Vec::new();
        while !answer.ends_with(b"}") {
            let mut more = [0; 4 << 10];
            let count = stream.read(&mut more).expect("an answer");
            assert_ne!(count, 0, "{}", answer.escape_ascii());
            answer.extend(&more[..count]);
        }
        let answer = String::from_utf8(answer).expect("text");
        assert!(answer.starts_with("HTTP/1.1 413 ") && answer.contains("\r\nconnection: close\r\n"), "{answer}");
    }
}

#[test]
fn ambiguous_http1_head_is_refused() {
    let (program, _config) = start_server(&[]);
    for more in [
        "\r\n",
        "host: localhost\r\nhost: localhost\r\n\r\n",
        "host: localhost\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    ] {
        let mut stream = TcpStream::connect(program.http.expect("a port")).expect("a connection");
        stream.write_all(format!("GET /healthz HTTP/1.1\r\n{more}").as_bytes()).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an end");
        assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("expected"), "{more:?}: {answer}");
    }
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused_and_not_buffered() {
    let (program, _config) = start_server(&[]);
    let body = format!(r#"{{"limit":"two","key":"{}"}}"#, "k".repeat(2 << 20));
    let (status, problem) = post(&program, "/v1/limit", &body).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(problem["detail"], "expected a body of at most 65536 bytes");
}
