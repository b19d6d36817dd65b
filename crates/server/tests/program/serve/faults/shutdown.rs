//! Shutdown under load. The snapshot has all taken units, and is compared with the responses.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_service_client::RateLimitServiceClient;
use tidegate_servers::wait_until;

use super::malformed::http2::{self, DATA, END_HEADERS, END_STREAM, HEADERS, PING, frame};
use super::{GOOD_CLIENT_QUOTA, RULES, clients, read_until, start_server};
use crate::serve::grpc::{channel, descriptor, request};
use crate::serve::program::Program;
use crate::serve::write_file;

/// Several streams on each of several connections. A request may fail on a connection that closes, but then it has taken
/// nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shutdown_under_load_takes_nothing_without_an_answer_over_grpc() {
    let (config, state) = (write_file("faults-ending.yaml", RULES), write_file("faults-ending.state", ""));
    std::fs::remove_file(&state).expect("it was there");
    let program = Program::start(&["--config", &config, "--snapshot", &state]);
    let allowed = Arc::new(AtomicU64::new(0));
    let mut load = Vec::new();
    for _ in 0..4 {
        let client = RateLimitServiceClient::new(channel(&program).await);
        load.extend((0..8).map(|_| {
            let (mut client, allowed) = (client.clone(), Arc::clone(&allowed));
            tokio::spawn(async move {
                // Until the server is gone.
                while let Ok(answer) = client.should_rate_limit(request("shop", &[descriptor("good", "u")])).await {
                    assert_eq!(answer.into_inner().overall_code, 1);
                    allowed.fetch_add(1, Ordering::Relaxed);
                }
            })
        }));
    }
    while allowed.load(Ordering::Relaxed) < 2_000 {
        assert!(load.iter().all(|one| !one.is_finished()), "nobody fails before the end");
        tokio::task::yield_now().await;
    }
    program.signal("TERM");
    for one in load {
        one.await.expect("every answer was right");
    }
    let allowed = allowed.load(Ordering::Relaxed);
    let after = tokio::task::spawn_blocking(move || {
        let (status, log) = program.wait_for_exit();
        assert!(status.success(), "{log:?}");
        assert!(!log.iter().any(|line| line.contains("not everything was finished")), "{log:?}");
        let again = Program::start(&["--config", &config, "--snapshot", &state]);
        clients::resp_client(&again, "good")()
    });
    assert_eq!(
        after.await.expect("it starts again"),
        (true, GOOD_CLIENT_QUOTA - allowed - 1),
        "{allowed} were answered"
    );
}

/// A request that started before the shutdown is answered, even if it is complete only after the listener has closed.
#[test]
fn a_request_that_started_before_shutdown_is_answered_over_http() {
    let body = r#"{"limit":"shop.good","key":"u"}"#;
    let whole = "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let head = format!("{whole}POST /v1/limit HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n", body.len());
    // Ctrl-C in a terminal signals every process, and a supervisor among them signals its children: two at once count as one.
    for signals in [&["TERM"][..], &["INT", "TERM"]] {
        let program = start_server("begun-http");
        let mut stream = send_half(program.http, (head.clone() + &body[..10]).as_bytes(), b"HTTP/1.1 200");
        program.signals(signals);
        wait_until_port_closes(program.http);
        stream.write_all(&body.as_bytes()[10..]).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer, and then the end");
        assert!(answer.contains("connection: close") && answer.contains("\"remaining\":999999"), "{answer}");
        assert!(program.wait_for_exit().0.success());
    }
}

#[test]
fn a_request_that_started_before_shutdown_is_answered_over_grpc() {
    let program = start_server("begun-grpc");
    let ping = |answered| frame(PING, answered, 0, b"are here");
    let message = frame(DATA, END_STREAM, 1, &http2::grpc_message("u"));
    let head = [http2::connection_start(), frame(HEADERS, END_HEADERS, 1, &http2::request_headers()), ping(0)].concat();
    let mut stream = send_half(program.grpc, &[&head, &message[..20]].concat(), &ping(1));
    program.signal("TERM");
    wait_until_port_closes(program.grpc);
    stream.write_all(&message[20..]).expect("sent");
    // The first bytes of the one frame with data: its kind, no flags, and its stream.
    read_until(&mut stream, &[DATA, 0, 0, 0, 0, 1]);
    drop(stream);
    assert!(program.wait_for_exit().0.success());
}

/// Opens a connection, sends this, and reads the answer to its complete part.
fn send_half(address: Option<SocketAddr>, sent: &[u8], answer: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address.expect("a port")).expect("a connection");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a socket");
    stream.write_all(sent).expect("sent");
    read_until(&mut stream, answer);
    stream
}

fn wait_until_port_closes(address: Option<SocketAddr>) {
    assert!(wait_until(|| TcpStream::connect(address.expect("a port")).is_err()), "it still listens");
}

#[test]
fn a_second_signal_ends_the_grace_period_and_the_snapshot_is_kept() {
    let (config, state) = (write_file("faults-twice.yaml", RULES), write_file("faults-twice.state", ""));
    std::fs::remove_file(&state).expect("it was there");
    let arguments = ["--config", &config, "--snapshot", &state, "--grace", "1h"];
    let program = Program::start(&arguments);
    assert_eq!(clients::resp_client(&program, "good")(), (true, GOOD_CLIENT_QUOTA - 1));
    let whole = "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let half = format!("{whole}POST /v1/limit HTTP/1.1\r\nhost: localhost\r\ncontent-length: 40\r\n\r\n{{");
    let _under_way = send_half(program.http, half.as_bytes(), b"HTTP/1.1 200");
    program.signal("TERM");
    wait_until_port_closes(program.http);
    // A signal within half a second of the first counts as one with it.
    let mut looks = 0;
    assert!(wait_until(|| {
        looks += 1;
        looks > 30
    }));
    program.signal("INT");
    let (status, log) = program.wait_for_exit();
    assert!(status.success(), "{log:?}");
    assert!(log.iter().any(|line| line.contains("a second signal")), "it was waited for: {log:?}");
    assert_eq!(clients::resp_client(&Program::start(&arguments), "good")(), (true, GOOD_CLIENT_QUOTA - 2));
}

#[test]
fn ctrl_c_shuts_down_in_order() {
    let program = start_server("ctrl-c");
    program.signal("INT");
    program.wait_for_log("ending");
    let (status, log) = program.wait_for_exit();
    assert!(status.success(), "{log:?}");
}
