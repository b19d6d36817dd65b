//! Clients that nobody wants: they cost their own connection, and nobody else anything.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use tidegate::ws::{Call, CallContext, Context, Exceeded, Kind, Message, OnExceeded, Router, close};
use tidegate::{ManualClock, Timestamp};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message as Frame;

use crate::support::{Add, Client, Counter, Over, Say, Sum, over_both, say, serve, soon, until};

over_both!(
    who_does_not_answer_pings_is_let_go,
    who_does_not_read_is_disconnected_when_too_much_waits,
    who_does_not_read_is_disconnected_in_time,
    who_sends_without_reading_is_not_read,
    progress_is_dropped_and_the_answer_is_not,
    a_message_in_fragments_is_one_message,
    fragments_that_are_too_much_together,
    a_header_that_promises_too_much_is_enough,
    a_message_that_is_far_too_big_gets_its_goodbye,
    what_is_too_big_is_not_read,
    one_that_is_read_past_has_a_bound_too,
    text_that_is_not_utf_8,
    frames_against_the_protocol,
    a_message_whose_fragments_never_end,
    a_message_of_single_letters_is_one_message,
    a_flood_of_pings,
    a_flood_of_what_is_too_big,
    nothing_is_left_of_events_that_wait_for_somebody_who_has_gone,
    a_flood_of_what_is_no_message,
    half_a_message,
);

/// A client that can do everything wrong.
struct Raw(TcpStream);

impl Raw {
    async fn connect(address: SocketAddr) -> Self {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = "GET / HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
                       sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(soon(stream.read_u8()).await.unwrap());
        }
        assert!(head.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&head));
        Raw(stream)
    }

    /// Sends a frame: its first byte, and a payload masked with zeros, which changes nothing.
    async fn frame(&mut self, first: u8, payload: &[u8]) {
        self.header(first, payload.len()).await;
        self.write(payload).await;
    }

    async fn header(&mut self, first: u8, length: usize) {
        let mut header = vec![first];
        match length {
            ..126 => header.push(0x80 | length as u8),
            _ => {
                header.push(0x80 | 127);
                header.extend((length as u64).to_be_bytes());
            }
        }
        header.extend([0; 4]);
        self.write(&header).await;
    }

    /// Whoever is cut off meanwhile finds out when reading.
    async fn write(&mut self, bytes: &[u8]) {
        let _ = soon(self.0.write_all(bytes)).await;
    }

    /// The payload of the next frame, and its first byte.
    async fn read(&mut self) -> Option<(u8, Vec<u8>)> {
        let first = soon(self.0.read_u8()).await.ok()?;
        let length = match soon(self.0.read_u8()).await.ok()? {
            126 => u64::from(soon(self.0.read_u16()).await.ok()?),
            127 => soon(self.0.read_u64()).await.ok()?,
            length => length.into(),
        };
        let mut payload = vec![0; length as usize];
        soon(self.0.read_exact(&mut payload)).await.ok()?;
        Some((first, payload))
    }

    /// The code that the server closes with.
    async fn closed(&mut self) -> Option<u16> {
        loop {
            let (first, payload) = self.read().await?;
            if first == CLOSE {
                return Some(u16::from_be_bytes(payload[..2].try_into().unwrap()));
            }
        }
    }
}

const FIN: u8 = 0x80;
const CONTINUED: u8 = 0x0;
const TEXT: u8 = 0x1;
const CLOSE: u8 = FIN | 0x8;
const PING: u8 = FIN | 0x9;

fn echo() -> tidegate::ws::RouterBuilder<()> {
    Router::builder().on(|context: Context<()>, say: Say| async move { context.send(&say) })
}

async fn who_does_not_answer_pings_is_let_go(over: Over) {
    let ends = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&ends);
    let router = echo()
        .heartbeat(Duration::from_millis(5), Duration::from_millis(5))
        .on_close(move |_: tidegate::ws::Connection<()>, closed| {
            noted.lock().unwrap().push((closed.code, closed.reason));
            async {}
        })
        .build();
    let client = Raw::connect(serve(over, &router).await).await;
    until(|| ends.lock().unwrap().len() == 1).await;
    assert_eq!(ends.lock().unwrap()[0], (1_006, "the peer does not answer".to_owned()));
    until(|| router.connections() == 0).await;
    drop(client);
}

async fn who_does_not_read_is_disconnected_when_too_much_waits(over: Over) {
    let router = echo()
        .outgoing(64, usize::MAX)
        .send_timeout(Duration::from_secs(3_600))
        .close_timeout(Duration::from_millis(10))
        .on_open(|connection: tidegate::ws::Connection<()>| async move { connection.subscribe("all").map(|_| ()) })
        .build();
    let address = serve(over, &router).await;
    let _does_not_read = Raw::connect(address).await;
    let mut reads = Client::connect(address).await;
    until(|| router.publish("all", &Say { text: String::new() }) == Ok(2)).await;
    // What the system itself takes in between is bounded too.
    let text = "x".repeat(60_000);
    let mut published = 0;
    while router.publish("all", &Say { text: text.clone() }) == Ok(2) {
        while reads.next().await["payload"]["text"] != text {}
        published += 1;
        assert!(published < 10_000, "there is no bound");
    }
    until(|| router.connections() == 1).await;
    reads.send(say("still there")).await;
    while reads.next().await["payload"]["text"] != "still there" {}
}

async fn who_does_not_read_is_disconnected_in_time(over: Over) {
    let router = echo().outgoing(100_000, usize::MAX).send_timeout(Duration::from_millis(100)).build();
    let mut client = Raw::connect(serve(over, &router).await).await;
    until(|| router.connections() == 1).await;
    let message = say(&"x".repeat(60_000)).to_string();
    for _ in 0..400 {
        if router.connections() == 0 {
            break;
        }
        client.frame(FIN | TEXT, message.as_bytes()).await;
    }
    until(|| router.connections() == 0).await;
}

/// A call that is answered with what it says.
#[derive(serde::Deserialize)]
struct Repeat {
    text: String,
}

impl Message for Repeat {
    const TYPE: &'static str = "REPEAT";
}

impl Call for Repeat {
    type Reply = Say;
}

async fn who_sends_without_reading_is_not_read(over: Over) {
    const MESSAGES: usize = 600;
    let router = echo()
        .outgoing(16, usize::MAX)
        .max_calls(4)
        .rpc(|_: CallContext<()>, Repeat { text }: Repeat| async move { Ok(Say { text }) })
        .send_timeout(Duration::from_secs(3_600))
        .build();
    let address = serve(over, &router).await;
    for message_type in ["SAY", "REPEAT"] {
        // Far more than may wait to be sent: the server stops reading before it would have to disconnect.
        let (mut sink, mut stream) = futures_util::StreamExt::split(Client::connect(address).await.0);
        let sending = tokio::spawn(async move {
            for id in 0..MESSAGES {
                let payload = json!({ "text": "x".repeat(30_000) });
                let meta = json!({ "correlationId": id.to_string() });
                let message = json!({ "type": message_type, "meta": meta, "payload": payload });
                futures_util::SinkExt::send(&mut sink, Frame::text(message.to_string())).await.unwrap();
            }
            sink
        });
        // Long enough for the server to be stuck; if it is not yet, the test only asks less of it.
        tokio::time::sleep(Duration::from_millis(200)).await;
        let mut answered = 0;
        while answered < MESSAGES {
            match soon(futures_util::StreamExt::next(&mut stream)).await {
                Some(Ok(Frame::Text(_))) => answered += 1,
                Some(Ok(Frame::Ping(_))) => {}
                other => panic!("after {answered} of {message_type}: {other:?}"),
            }
        }
        let mut client = Client(sending.await.unwrap().reunite(stream).unwrap());
        client.send(say("on")).await;
        assert_eq!(client.next().await["payload"]["text"], "on");
    }
}

async fn progress_is_dropped_and_the_answer_is_not(over: Over) {
    let done = Counter::default();
    let counts = done.clone();
    let router: Router<()> = Router::builder()
        .outgoing(16, 1 << 20)
        .send_timeout(Duration::from_secs(3_600))
        .call_timeout(Duration::from_secs(3_600))
        .rpc(move |context: CallContext<()>, _: Add| {
            let counts = counts.clone();
            async move {
                let (mut sent, mut dropped) = (0, 0);
                // More than all that lies between here and a client that does not read.
                while dropped < 100 {
                    let counted = if context.progress(&"x".repeat(60_000))? { &mut sent } else { &mut dropped };
                    *counted += 1;
                    tokio::task::yield_now().await;
                }
                counts.count();
                Ok(Sum(sent))
            }
        })
        .build();
    let mut client = Client::connect(serve(over, &router).await).await;
    client.call("1", "ADD", json!([1, 1])).await;
    until(|| done.get() == 1).await;
    let mut progress = 0;
    loop {
        let message = client.next().await;
        if message["type"] == "SUM" {
            assert_eq!(message["payload"], progress, "what was not dropped has come");
            break;
        }
        progress += 1;
    }
}

async fn a_message_in_fragments_is_one_message(over: Over) {
    let router = echo().build();
    let mut client = Raw::connect(serve(over, &router).await).await;
    let message = say("in parts: é").to_string();
    let (first, rest) = message.as_bytes().split_at(7);
    // The second ends in the middle of a letter.
    let (second, third) = rest.split_at(rest.len() - 4);
    client.frame(TEXT, first).await;
    client.frame(PING, b"between").await;
    client.frame(CONTINUED, second).await;
    client.frame(CONTINUED, b"").await;
    client.frame(FIN | CONTINUED, third).await;
    loop {
        let (first, payload) = client.read().await.unwrap();
        if first == FIN | TEXT {
            assert!(String::from_utf8(payload).unwrap().contains("in parts: é"));
            break;
        }
    }
}

/// A router that takes 1,000 bytes, and notes what was too much.
fn small(on_exceeded: OnExceeded) -> (Router<()>, Arc<Mutex<Vec<Exceeded>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&seen);
    let router = echo()
        .max_message(1_000)
        .on_payload_exceeded(on_exceeded)
        .on_limit_exceeded(move |exceeded| noted.lock().unwrap().push(exceeded.clone()))
        .close_timeout(Duration::from_millis(200))
        .build();
    (router, seen)
}

async fn fragments_that_are_too_much_together(over: Over) {
    let (router, seen) = small(OnExceeded::Close(close::TOO_BIG));
    let mut client = Raw::connect(serve(over, &router).await).await;
    client.frame(TEXT, &[b'x'; 600]).await;
    client.frame(CONTINUED, &[b'x'; 600]).await;
    assert_eq!(client.closed().await, Some(1_009));
    let seen = seen.lock().unwrap();
    assert_eq!((seen.len(), seen[0].kind, seen[0].limit), (1, Kind::Payload, 1_000));
}

async fn a_header_that_promises_too_much_is_enough(over: Over) {
    let (router, seen) = small(OnExceeded::Close(close::TOO_BIG));
    let mut client = Raw::connect(serve(over, &router).await).await;
    client.header(FIN | TEXT, 1 << 40).await;
    assert_eq!(client.closed().await, Some(1_009), "without a byte of the message");
    assert_eq!(seen.lock().unwrap()[0].observed, 1 << 40);
    until(|| router.connections() == 0).await;
}

async fn a_message_that_is_far_too_big_gets_its_goodbye(over: Over) {
    let (router, seen) = small(OnExceeded::Close(4_009));
    let mut client = Raw::connect(serve(over, &router).await).await;
    client.frame(FIN | TEXT, &vec![b'x'; 20 << 20]).await;
    assert_eq!(client.closed().await, Some(4_009));
    assert_eq!(seen.lock().unwrap().len(), 1);
}

async fn what_is_too_big_is_not_read(over: Over) {
    let router = echo().max_message(1_000).close_timeout(Duration::from_secs(3_600)).build();
    let mut client = Raw::connect(serve(over, &router).await).await;
    client.header(FIN | TEXT, 1 << 40).await;
    assert_eq!(client.closed().await, Some(1_009));
    // More than all systems in between take in. A server that reads it has it within this time, on most machines.
    let rest = vec![b'x'; 100 << 20];
    let sent = client.0.write_all(&rest);
    assert!(tokio::time::timeout(Duration::from_secs(1), sent).await.is_err(), "somebody reads it");
}

async fn one_that_is_read_past_has_a_bound_too(over: Over) {
    let (router, seen) = small(OnExceeded::Send);
    let mut client = Client::connect(serve(over, &router).await).await;
    client.send_frame(Frame::text("x".repeat(16_000))).await;
    assert_eq!(client.error().await, "FAILED_PRECONDITION");
    client.send_frame(Frame::text("x".repeat(16_001))).await;
    assert_eq!(client.closed().await, Some(1_009));
    let observed: Vec<_> = seen.lock().unwrap().iter().map(|exceeded| exceeded.observed).collect();
    assert_eq!(observed, [16_000, 16_001]);
}

async fn text_that_is_not_utf_8(over: Over) {
    let router = echo().build();
    let mut client = Raw::connect(serve(over, &router).await).await;
    client.frame(FIN | TEXT, b"{\"type\":\"\xff\"}").await;
    assert_eq!(client.closed().await, Some(1_007));
}

async fn frames_against_the_protocol(over: Over) {
    let router = echo().build();
    let address = serve(over, &router).await;
    // A reserved kind, a reserved bit, a continuation of nothing, a ping in parts.
    for first in [FIN | 0x3, FIN | 0x40 | TEXT, FIN | CONTINUED, 0x9] {
        let mut client = Raw::connect(address).await;
        client.frame(first, b"x").await;
        assert_eq!(client.closed().await, Some(1_002), "{first:#x}");
    }
    // Not masked.
    let mut client = Raw::connect(address).await;
    client.write(&[FIN | TEXT, 2, b'{', b'}']).await;
    assert_eq!(client.closed().await, Some(1_002));
    until(|| router.connections() == 0).await;
}

fn standing_still() -> ManualClock {
    ManualClock::new(Timestamp::from_millis(1_700_000_000_000))
}

async fn a_flood_of_what_is_too_big(over: Over) {
    let router = echo().clock(standing_still()).max_message(10).on_payload_exceeded(OnExceeded::Send).build();
    let mut client = Raw::connect(serve(over, &router).await).await;
    for number in 0..300 {
        client.frame(FIN | if number % 2 == 0 { TEXT } else { 0x2 }, &[b'x'; 100]).await;
    }
    assert_eq!(client.closed().await, Some(1_008));
}

async fn a_message_whose_fragments_never_end(over: Over) {
    let router = echo().max_message(1_000).build();
    let mut client = Raw::connect(serve(over, &router).await).await;
    client.frame(TEXT, b"{").await;
    // Each of them is nothing, so no length ever is too much.
    let empty = [0, 0x80, 0, 0, 0, 0].repeat(100_000);
    let mut sent = 0;
    while soon(client.0.write_all(&empty)).await.is_ok() {
        sent += 1;
        assert!(sent < 1_000, "it is read for ever");
    }
    until(|| router.connections() == 0).await;
}

async fn a_message_of_single_letters_is_one_message(over: Over) {
    let router = echo().max_message(1_000).build();
    let mut client = Raw::connect(serve(over, &router).await).await;
    let message = say(&"x".repeat(900)).to_string();
    for round in 0..20 {
        for (index, letter) in message.bytes().enumerate() {
            let last = if index + 1 == message.len() { FIN } else { 0 };
            client.frame(last | if index == 0 { TEXT } else { CONTINUED }, &[letter]).await;
        }
        let (first, _) = client.read().await.unwrap_or_else(|| panic!("cut off in round {round}"));
        assert_eq!(first, FIN | TEXT);
    }
}

async fn nothing_is_left_of_events_that_wait_for_somebody_who_has_gone(over: Over) {
    let (handled, sent) = (Counter::default(), Counter::default());
    let (counts, sends) = (handled.clone(), sent.clone());
    let router: Router<()> = Router::builder()
        .outgoing(64, usize::MAX)
        .close_timeout(Duration::from_millis(10))
        .on(move |context: Context<()>, _: Say| {
            // More than there is room for in between, so that the next ones wait for it.
            while sends.get() < 100 && context.send(&Say { text: "x".repeat(60_000) }).is_ok() {
                sends.count();
            }
            counts.count();
            async {}
        })
        .build();
    let mut client = Raw::connect(serve(over, &router).await).await;
    let message = say("").to_string();
    for _ in 0..10 {
        client.frame(FIN | TEXT, message.as_bytes()).await;
    }
    until(|| handled.get() >= 1).await;
    drop(client);
    until(|| handled.get() == 10).await;
    until(|| router.connections() == 0).await;
}

async fn a_flood_of_pings(over: Over) {
    let router = echo().clock(standing_still()).build();
    let mut client = Raw::connect(serve(over, &router).await).await;
    for _ in 0..300 {
        client.frame(PING, b"").await;
    }
    assert_eq!(client.closed().await, Some(1_008));
}

async fn a_flood_of_what_is_no_message(over: Over) {
    let router = echo().clock(standing_still()).build();
    let mut client = Raw::connect(serve(over, &router).await).await;
    for number in 0..300 {
        client.frame(FIN | if number % 2 == 0 { TEXT } else { 0x2 }, b"{").await;
    }
    assert_eq!(client.closed().await, Some(1_008));
}

async fn half_a_message(over: Over) {
    let router = echo().build();
    let address = serve(over, &router).await;
    let mut client = Raw::connect(address).await;
    client.header(FIN | TEXT, 1_000).await;
    client.write(b"{\"type\":").await;
    let mut other = Raw::connect(address).await;
    other.frame(TEXT, b"{\"type\":").await;
    until(|| router.connections() == 2).await;
    drop((client, other));
    until(|| router.connections() == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handshake_that_is_never_finished_ends() {
    let router = echo().handshake_timeout(Duration::from_millis(10)).build();
    let mut stream = TcpStream::connect(serve(Over::Tungstenite, &router).await).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
    assert_eq!(soon(stream.read(&mut [0; 100])).await.unwrap_or(0), 0, "it is cut off");
}
