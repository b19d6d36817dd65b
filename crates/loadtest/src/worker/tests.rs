//! Tests of the loop of a connection, against servers of known behaviour, in paused time.

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use super::*;
use crate::tally::{Counts, Measurements};

const DENIED_REPLY: &[u8] = b"*5\r\n:0\r\n:5\r\n:0\r\n:100\r\n:200\r\n";
const ALLOWED_REPLY: &[u8] = b"*5\r\n:1\r\n:5\r\n:4\r\n:-1\r\n:200\r\n";

/// Creates a test of the limit `api` over the Redis protocol, for `millis`.
fn for_millis(millis: u64) -> LoadTest {
    let target = "redis://127.0.0.1:1".parse::<Target>().expect("a target");
    let (duration, limit) = (Duration::from_millis(millis), Some("api".to_owned()));
    LoadTest { duration, limit, ..LoadTest::new([target]) }
}

const HOUR: u64 = 3_600_000;

/// Answers every command: the n-th one, from 0, after some milliseconds, with some bytes.
async fn serve(mut stream: DuplexStream, answer: impl Fn(u64) -> (u64, &'static [u8])) -> u64 {
    let (mut seen, mut read) = (0, Vec::with_capacity(1 << 16));
    while matches!(stream.read_buf(&mut read).await, Ok(1..)) {
        let commands = read.windows(8).filter(|word| *word == b"TG.LIMIT").count() as u64;
        assert!(read.starts_with(b"*4\r\n$8\r\nTG.LIMIT\r\n$3\r\napi\r\n$"), "{}", read.escape_ascii());
        assert!(read.ends_with(b"\r\n$1\r\n1\r\n"), "pipelined requests share one write");
        read.clear();
        for _ in 0..commands {
            let (millis, bytes) = answer(seen);
            seen += 1;
            sleep(Duration::from_millis(millis)).await;
            if bytes.is_empty() {
                return seen;
            }
            stream.write_all(bytes).await.expect("somebody reads");
        }
    }
    seen
}

struct TestRun {
    measurements: Measurements,
    sent: u64,
    unsent: u64,
    /// The commands that the server has received.
    seen: u64,
    abort_reason: Option<String>,
}

impl TestRun {
    fn counts(&self) -> &Counts {
        &self.measurements.servers[0]
    }

    fn at(&self, quantile: f64) -> u64 {
        // Histograms have three digits.
        (self.counts().latencies.value_at_quantile(quantile) + 500) / 1_000
    }
}

/// Runs one connection against a server with these answers.
async fn run(test: LoadTest, answer: impl Fn(u64) -> (u64, &'static [u8]) + Send + 'static) -> TestRun {
    let test = Arc::new(test);
    let (near, far) = tokio::io::duplex(1 << 20);
    let server = tokio::spawn(serve(far, answer));
    let client =
        Client::from_stream(Box::new(near), Protocol::Resp, &test.template(&test.targets[0])).await.expect("no token");
    let started = Instant::now();
    let tally = Arc::new(Tally::new(1, started, test.duration));
    let (stopper, stop) = StopSender::new();
    let connector = Connector::new(&test.targets[0], None).expect("no TLS");
    let load = Arc::new(ServerLoad::new(0, &test, connector, &tally, &stopper, started));
    run_connection(Arc::clone(&load), client, test.key_sequence(0), stop).await;
    let sent = load.sent.load(Ordering::Relaxed);
    let unsent = load.schedule.unsent(started + test.duration, sent);
    drop(load);
    let (measurements, _) = Arc::into_inner(tally).expect("no connection is left").finish();
    TestRun { measurements, sent, unsent, seen: server.await.expect("served"), abort_reason: stopper.abort_reason() }
}

#[tokio::test(start_paused = true)]
async fn every_sent_request_is_counted() {
    let ran = run(for_millis(1_000), |n| (10, if n % 4 == 3 { DENIED_REPLY } else { ALLOWED_REPLY })).await;
    assert_eq!((ran.counts().allowed, ran.counts().denied, ran.counts().failed), (75, 25, 0));
    assert_eq!((ran.sent, ran.seen, ran.unsent), (100, 100, 0));
    assert_eq!((ran.at(0.01), ran.at(0.5), ran.at(1.0)), (10, 10, 10));
}

#[tokio::test(start_paused = true)]
async fn known_delays_give_known_percentiles() {
    // 1, 2, ... 100 ms, one after the other: 5050 ms in all.
    let ran = run(for_millis(5_050), |n| (1 + n, ALLOWED_REPLY)).await;
    assert_eq!((ran.sent, ran.seen), (100, 100));
    assert_eq!([0.01, 0.5, 0.9, 0.99, 1.0].map(|quantile| ran.at(quantile)), [1, 50, 90, 99, 100]);
}

/// Coordinated omission: a stall of a second counts as a second for one request, and most of a second for those behind
/// it.
#[tokio::test(start_paused = true)]
async fn a_stall_counts_for_all_requests_due_meanwhile() {
    let stall = |n| (if n == 100 { 1_000 } else { 0 }, ALLOWED_REPLY);
    let open = run(LoadTest { rate: Some(100), ..for_millis(10_000) }, stall).await;
    assert_eq!((open.sent, open.seen, open.unsent), (1_000, 1_000, 0));
    // 100 of 1,000 were due during the stall: the worst 1 % waited for 0.99 s and more.
    assert_eq!(open.counts().latencies.max() / 1_000, 1_000);
    assert!(open.at(0.99) >= 880, "{}", open.at(0.99));
    assert!((400..600).contains(&open.at(0.95)), "{}", open.at(0.95));
    assert_eq!(open.at(0.89), 0);

    // Without a rate, it is one slow request among many.
    let closed = run(for_millis(10_000), |n| (if n == 100 { 1_000 } else { 10 }, ALLOWED_REPLY)).await;
    assert_eq!((closed.at(0.99), closed.counts().latencies.max() / 1_000), (10, 1_000));
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_rate_is_reported_as_unsent() {
    let ran = run(LoadTest { rate: Some(100), ..for_millis(1_000) }, |_| (100, ALLOWED_REPLY)).await;
    assert_eq!((ran.sent, ran.seen, ran.unsent), (10, 10, 90));
}

#[tokio::test(start_paused = true)]
async fn pipelined_requests_are_counted_one_by_one() {
    let ran = run(LoadTest { pipeline: 10, ..for_millis(1_000) }, |n| {
        (10, if n % 2 == 0 { ALLOWED_REPLY } else { DENIED_REPLY })
    })
    .await;
    assert_eq!((ran.sent, ran.seen, ran.counts().allowed, ran.counts().denied), (100, 100, 50, 50));
    // The first of ten is there after 10 ms, the last after 100.
    assert_eq!((ran.at(0.1), ran.at(0.5), ran.at(1.0)), (10, 50, 100));
    // At a rate, only the due requests are sent together.
    let ran = run(LoadTest { pipeline: 10, rate: Some(100), ..for_millis(1_000) }, |_| (0, ALLOWED_REPLY)).await;
    assert_eq!((ran.sent, ran.at(1.0)), (100, 0));
}

#[tokio::test(start_paused = true)]
async fn a_refused_first_request_aborts_the_test() {
    let ran = run(for_millis(HOUR), |_| (1, b"-ERR there is no limit named \"api\"\r\n")).await;
    assert_eq!((ran.sent, ran.seen), (1, 1));
    let reason = ran.abort_reason.expect("it was told");
    assert!(reason.starts_with("redis://127.0.0.1:1: ERR: there is no limit named \"api\". --limit NAME"), "{reason}");
    let ran = run(for_millis(HOUR), |_| (1, b"-NOAUTH Authentication required.\r\n")).await;
    assert!(ran.abort_reason.is_some_and(|reason| reason.contains("--token-file")));
    let ran = run(for_millis(HOUR), |_| (1, b"HTTP/1.1 400 Bad Request\r\n\r\n")).await;
    assert!(ran.abort_reason.is_some_and(|reason| reason.contains("not the Redis protocol")));
    let ran = run(for_millis(HOUR), |_| (1, b"")).await;
    assert!(ran.abort_reason.is_some_and(|reason| reason.contains("lost before anything was decided")));
}

#[tokio::test(start_paused = true)]
async fn errors_after_a_decision_are_counted_by_kind() {
    let answers: [&[u8]; 4] = [ALLOWED_REPLY, ALLOWED_REPLY, b"-ERR one\r\n", b"-UNAVAILABLE the store is broken\r\n"];
    let ran = run(for_millis(1_000), move |n| (10, answers[n as usize % 4])).await;
    assert_eq!((ran.sent, ran.seen, ran.counts().allowed, ran.counts().failed), (100, 100, 50, 50));
    let errors = ran.counts().errors.iter().map(|(error, count)| (&error.kind[..], &error.message[..], *count));
    assert_eq!(errors.collect::<Vec<_>>(), [("ERR", "one", 25), ("UNAVAILABLE", "the store is broken", 25)]);
    assert_eq!(ran.abort_reason, None);
}

#[tokio::test(start_paused = true)]
async fn a_lost_connection_fails_each_request_on_it() {
    // Four requests are answered, the fifth is not, and five more were sent. No server accepts a new connection.
    let answer = |n| (10, if n == 4 { &b""[..] } else { ALLOWED_REPLY });
    let ran = run(LoadTest { pipeline: 10, ..for_millis(110) }, answer).await;
    assert_eq!((ran.counts().allowed, ran.counts().failed, ran.abort_reason.as_deref()), (4, 6, None));
    assert_eq!(ran.counts().errors[0].0.kind, "connection lost");
}
