//! A load in a time of its own: servers of known behaviour, and clocks that stand still while anything is done.

use clap::Parser;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use super::*;
use crate::bench::tally::{Counted, Counts};
use crate::cli::{Cli, Verb};

const OVER: &[u8] = b"*5\r\n:0\r\n:5\r\n:0\r\n:100\r\n:200\r\n";
const UNDER: &[u8] = b"*5\r\n:1\r\n:5\r\n:4\r\n:-1\r\n:200\r\n";

fn plan(arguments: &[&str]) -> Arc<Plan> {
    let whole = ["tidegate", "bench", "redis://127.0.0.1:1", "--limit", "api", "--picture", "off"];
    let Some(Verb::Bench(bench)) = Cli::parse_from(whole.iter().chain(arguments)).verb else { panic!("it is bench") };
    Arc::new(Plan::of(&bench).expect("these arguments go together"))
}

/// Answers every command: the n-th one (from 0) after so many milliseconds, with those bytes.
async fn serve(mut wire: DuplexStream, answer: impl Fn(u64) -> (u64, &'static [u8])) -> u64 {
    let (mut seen, mut read) = (0, Vec::with_capacity(1 << 16));
    while matches!(wire.read_buf(&mut read).await, Ok(1..)) {
        let commands = read.windows(8).filter(|word| *word == b"TG.LIMIT").count() as u64;
        assert!(read.starts_with(b"*4\r\n$8\r\nTG.LIMIT\r\n$3\r\napi\r\n$"), "{}", read.escape_ascii());
        assert!(read.ends_with(b"\r\n$1\r\n1\r\n"), "what is sent together is written at once");
        read.clear();
        for _ in 0..commands {
            let (millis, bytes) = answer(seen);
            seen += 1;
            sleep(Duration::from_millis(millis)).await;
            if bytes.is_empty() {
                return seen;
            }
            wire.write_all(bytes).await.expect("somebody reads");
        }
    }
    seen
}

struct Ran {
    counted: Counted,
    begun: u64,
    unsent: u64,
    /// What the server has seen.
    seen: u64,
    why: Option<String>,
}

impl Ran {
    fn counts(&self) -> &Counts {
        &self.counted.servers[0]
    }

    fn at(&self, quantile: f64) -> u64 {
        // Histograms have three digits.
        (self.counts().latencies.value_at_quantile(quantile) + 500) / 1_000
    }
}

/// One connection's load, on a server that answers like that.
async fn run(arguments: &[&str], answer: impl Fn(u64) -> (u64, &'static [u8]) + Send + 'static) -> Ran {
    let plan = plan(arguments);
    let (near, far) = tokio::io::duplex(1 << 20);
    let server = tokio::spawn(serve(far, answer));
    let client = Client::over(Box::new(near), Protocol::Resp, &plan.servers[0].question).await.expect("no token");
    let begun = Instant::now();
    let tally = Arc::new(Tally::new(1, begun, plan.duration));
    let (stopper, stop) = Stopper::new();
    let share = Arc::new(Share::new(0, &plan, &tally, &stopper, begun));
    work(Arc::clone(&share), client, plan.keys(0), stop).await;
    let sent = share.begun.load(Ordering::Relaxed);
    let unsent = share.pace.unsent(begun + plan.duration, sent);
    drop(share);
    let (counted, _) = Arc::into_inner(tally).expect("nobody counts").finish();
    Ran { counted, begun: sent, unsent, seen: server.await.expect("served"), why: stopper.why() }
}

#[tokio::test(start_paused = true)]
async fn what_is_sent_is_what_is_counted() {
    let ran = run(&["--duration", "1s"], |n| (10, if n % 4 == 3 { OVER } else { UNDER })).await;
    assert_eq!((ran.counts().allowed, ran.counts().denied, ran.counts().failed), (75, 25, 0));
    assert_eq!((ran.begun, ran.seen, ran.unsent), (100, 100, 0));
    assert_eq!((ran.at(0.01), ran.at(0.5), ran.at(1.0)), (10, 10, 10));
}

#[tokio::test(start_paused = true)]
async fn known_delays_give_known_percentiles() {
    // 1, 2, ... 100 ms, one after the other, which is 5050 ms in all.
    let ran = run(&["--duration", "5050ms"], |n| (1 + n, UNDER)).await;
    assert_eq!((ran.begun, ran.seen), (100, 100));
    assert_eq!([0.01, 0.5, 0.9, 0.99, 1.0].map(|quantile| ran.at(quantile)), [1, 50, 90, 99, 100]);
}

/// Coordinated omission: one stall of a second is a second for one request, and most of a second for those behind it.
#[tokio::test(start_paused = true)]
async fn a_stall_shows_in_all_requests_that_were_due_meanwhile() {
    let stall = |n| (if n == 100 { 1_000 } else { 0 }, UNDER);
    let open = run(&["--duration", "10s", "--rate", "100"], stall).await;
    assert_eq!((open.begun, open.seen, open.unsent), (1_000, 1_000, 0));
    // 100 of 1,000 were due while it stalled: the worst 1 % waited for 0.99 s and more.
    assert_eq!(open.counts().latencies.max() / 1_000, 1_000);
    assert!(open.at(0.99) >= 880, "{}", open.at(0.99));
    assert!((400..600).contains(&open.at(0.95)), "{}", open.at(0.95));
    assert_eq!(open.at(0.89), 0);

    // Without a rate, it is one slow request among many.
    let closed = run(&["--duration", "10s"], |n| (if n == 100 { 1_000 } else { 10 }, UNDER)).await;
    assert_eq!((closed.at(0.99), closed.counts().latencies.max() / 1_000), (10, 1_000));
}

#[tokio::test(start_paused = true)]
async fn a_rate_that_cannot_be_kept_is_told() {
    let ran = run(&["--duration", "1s", "--rate", "100"], |_| (100, UNDER)).await;
    assert_eq!((ran.begun, ran.seen, ran.unsent), (10, 10, 90));
}

#[tokio::test(start_paused = true)]
async fn requests_sent_together_are_counted_one_by_one() {
    let ran = run(&["--duration", "1s", "--pipeline", "10"], |n| (10, if n % 2 == 0 { UNDER } else { OVER })).await;
    assert_eq!((ran.begun, ran.seen, ran.counts().allowed, ran.counts().denied), (100, 100, 50, 50));
    // The first of ten is there after 10 ms, the last after 100.
    assert_eq!((ran.at(0.1), ran.at(0.5), ran.at(1.0)), (10, 50, 100));
    // At a rate, only those that are due go together.
    let ran = run(&["--duration", "1s", "--pipeline", "10", "--rate", "100"], |_| (0, UNDER)).await;
    assert_eq!((ran.begun, ran.at(1.0)), (100, 0));
}

#[tokio::test(start_paused = true)]
async fn a_wrong_question_ends_it_at_once() {
    let ran = run(&["--duration", "1h"], |_| (1, b"-ERR there is no limit named \"api\"\r\n")).await;
    assert_eq!((ran.begun, ran.seen), (1, 1));
    let why = ran.why.expect("it was told");
    assert!(why.starts_with("redis://127.0.0.1:1: ERR: there is no limit named \"api\". --limit NAME"), "{why}");
    let ran = run(&["--duration", "1h"], |_| (1, b"-NOAUTH Authentication required.\r\n")).await;
    assert!(ran.why.is_some_and(|why| why.contains("--token-file")));
    let ran = run(&["--duration", "1h"], |_| (1, b"HTTP/1.1 400 Bad Request\r\n\r\n")).await;
    assert!(ran.why.is_some_and(|why| why.contains("not the Redis protocol")));
    let ran = run(&["--duration", "1h"], |_| (1, b"")).await;
    assert!(ran.why.is_some_and(|why| why.contains("lost before anything was decided")));
}

#[tokio::test(start_paused = true)]
async fn errors_after_a_decision_are_counted_by_kind_with_their_first_words() {
    let answers: [&[u8]; 4] = [UNDER, UNDER, b"-ERR one\r\n", b"-UNAVAILABLE the store is broken\r\n"];
    let ran = run(&["--duration", "1s"], move |n| (10, answers[n as usize % 4])).await;
    assert_eq!((ran.begun, ran.seen, ran.counts().allowed, ran.counts().failed), (100, 100, 50, 50));
    let errors = ran.counts().errors.iter().map(|(refusal, count)| (&refusal.kind[..], &refusal.message[..], *count));
    assert_eq!(errors.collect::<Vec<_>>(), [("ERR", "one", 25), ("UNAVAILABLE", "the store is broken", 25)]);
    assert_eq!(ran.why, None);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_lost_is_an_error_for_each_request_on_it() {
    // Four are answered, the fifth is not, and five were sent behind it. Nobody listens to a new connection.
    let answer = |n| (10, if n == 4 { &b""[..] } else { UNDER });
    let ran = run(&["--duration", "110ms", "--pipeline", "10"], answer).await;
    assert_eq!((ran.counts().allowed, ran.counts().failed, ran.why.as_deref()), (4, 6, None));
    assert_eq!(ran.counts().errors[0].0.kind, "connection lost");
}
