//! Servers that refuse, answer something malformed, or cannot be reached.

use std::io::{Read, Write};
use std::net::TcpListener;

use tidegate::remote::RemoteStore;
use tidegate::store::{Op, Request, Scope, TestableStore};
use tidegate::{Cost, Key, OnStoreError, Quota, Store, StoreError, Timestamp, seconds};

use super::{run, store};
use crate::serve::program::Program;

fn apply_limit(store: &RemoteStore, key: &Key<'_>, at: Option<Timestamp>) -> Result<tidegate::Decision, StoreError> {
    let (scope, quota) = (Scope::new("", "api"), Quota::token_bucket(10, seconds(1)).expect("a quota"));
    let (op, on_store_error) = (Op::Limit(Cost::ONE), OnStoreError::Closed);
    let request = Request { scope: &scope, key, quota: &quota, op, on_store_error };
    match at {
        None => run(store.apply(&request)),
        Some(at) => run(store.apply_at(&request, at)),
    }
}

#[test]
fn refused_requests_are_not_retryable() {
    let program = Program::start(&["--grpc", "off", "--resp", "off"]);
    let store = store(&program);
    let long = Key::from("x".repeat(5_000));
    let error = apply_limit(&store, &long, None).expect_err("too long");
    assert!(!error.is_retryable() && error.to_string().contains("at most 4096"), "{error}");
    // Only a server for tests takes the time.
    let error = apply_limit(&store, &Key::from("u1"), Some(Timestamp::from_millis(1))).expect_err("not for tests");
    assert!(!error.is_retryable() && error.to_string().contains("--testing"), "{error}");
    assert_eq!(apply_limit(&store, &Key::from("u1"), None).expect("a decision").remaining(), 9, "nothing was taken");
}

#[test]
fn a_malformed_response_is_an_error_and_never_a_decision() {
    let decision = r#"{"decisions":[]}"#;
    let answers = [
        ("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello".to_owned(), "not the server's"),
        ("HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\nhello".to_owned(), "cannot be read"),
        (format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{decision}", decision.len()), "another number"),
        ("HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n".to_owned(), "502"),
        ("SSH-2.0-OpenSSH\r\n".to_owned(), "did not answer"),
        (String::new(), "did not answer"),
    ];
    for (answer, said) in answers {
        let url = fixed_response_server(answer.clone());
        let store = RemoteStore::new(&url).expect("an address");
        let error = apply_limit(&store, &Key::from("u1"), None).expect_err("no answer");
        assert!(error.is_retryable() && error.to_string().contains(said), "{answer:?}: {error}");
    }
}

#[test]
fn an_unreachable_server_is_reported() {
    let address = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound");
    let store = RemoteStore::new(&format!("http://{address}")).expect("an address");
    let error = apply_limit(&store, &Key::from("u1"), None).expect_err("nobody");
    assert!(error.is_retryable() && error.to_string().contains("cannot be connected to"), "{error}");
}

/// Answers every request with this, and hangs up.
fn fixed_response_server(answer: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    std::thread::spawn(move || {
        for mut client in listener.incoming().map_while(Result::ok) {
            let mut bytes = [0; 4_096];
            let _ = client.read(&mut bytes);
            let _ = client.write_all(answer.as_bytes());
        }
    });
    format!("http://{address}")
}
