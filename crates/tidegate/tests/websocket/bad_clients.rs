//! Misbehaving clients, which lose only their own connection.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use tidegate::websocket::{
    Context, ExceededKind, LimitExceeded, Message, OnExceeded, Router, Rpc, RpcContext, close_code,
};
use tidegate::{ManualClock, Timestamp};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message as Frame;

use crate::support::{Add, Client, Counter, Say, ServerKind, Sum, for_every_server, say, serve, until, within_timeout};

for_every_server!(
    client_that_ignores_pings_is_disconnected,
    client_that_does_not_read_is_disconnected_when_its_queue_overflows,
    client_that_does_not_read_is_disconnected_in_time,
    client_that_sends_without_reading_is_not_read,
    progress_is_dropped_and_the_reply_is_not,
    fragmented_message_is_one_message,
    fragments_of_a_large_message_are_disconnected,
    header_of_a_large_frame_is_rejected_before_its_payload,
    huge_message_gets_a_close_frame,
    large_message_is_not_read,
    discarded_message_has_a_bound,
    invalid_utf_8_closes_with_1007,
    invalid_frames_are_disconnected,
    endless_fragments_are_disconnected,
    message_in_single_byte_fragments_is_one_message,
    flood_of_pings_is_disconnected,
    flood_of_large_messages_is_disconnected,
    events_waiting_for_room_are_dropped_when_the_client_leaves,
    flood_of_malformed_messages_is_disconnected,
    half_a_message_is_not_handled,
);

/// A raw client that can violate the protocol.
struct RawClient(TcpStream);

impl RawClient {
    async fn connect(address: SocketAddr) -> Self {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = "GET / HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
                       sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(within_timeout(stream.read_u8()).await.unwrap());
        }
        assert!(head.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&head));
        RawClient(stream)
    }

    /// Sends a frame with this first byte. A zero mask leaves the payload unchanged.
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

    /// A write after the server has closed fails; the next read shows it.
    async fn write(&mut self, bytes: &[u8]) {
        let _ = within_timeout(self.0.write_all(bytes)).await;
    }

    /// Returns the payload of the next frame, and its first byte.
    async fn read(&mut self) -> Option<(u8, Vec<u8>)> {
        let first = within_timeout(self.0.read_u8()).await.ok()?;
        let length = match within_timeout(self.0.read_u8()).await.ok()? {
            126 => u64::from(within_timeout(self.0.read_u16()).await.ok()?),
            127 => within_timeout(self.0.read_u64()).await.ok()?,
            length => length.into(),
        };
        let mut payload = vec![0; length as usize];
        within_timeout(self.0.read_exact(&mut payload)).await.ok()?;
        Some((first, payload))
    }

    /// Returns the server's close code.
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

fn echo() -> tidegate::websocket::RouterBuilder<()> {
    Router::builder().on(|context: Context<()>, say: Say| async move { context.send(&say) })
}

async fn client_that_ignores_pings_is_disconnected(server_kind: ServerKind) {
    let ends = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&ends);
    let router = echo()
        .heartbeat(Duration::from_millis(5), Duration::from_millis(5))
        .on_close(move |_: tidegate::websocket::Connection<()>, closed| {
            noted.lock().unwrap().push((closed.code, closed.reason));
            async {}
        })
        .build()
        .unwrap();
    let client = RawClient::connect(serve(server_kind, &router).await).await;
    until(|| ends.lock().unwrap().len() == 1).await;
    assert_eq!(ends.lock().unwrap()[0], (1_006, "the peer does not answer".to_owned()));
    until(|| router.connection_count() == 0).await;
    drop(client);
}

async fn client_that_does_not_read_is_disconnected_when_its_queue_overflows(server_kind: ServerKind) {
    let router = echo()
        .send_queue(64, usize::MAX)
        .send_timeout(Duration::from_secs(3_600))
        .close_timeout(Duration::from_millis(10))
        .on_open(
            |connection: tidegate::websocket::Connection<()>| async move { connection.subscribe("all").map(|_| ()) },
        )
        .build()
        .unwrap();
    let address = serve(server_kind, &router).await;
    let _does_not_read = RawClient::connect(address).await;
    let mut reads = Client::connect(address).await;
    until(|| router.publish("all", &Say { text: String::new() }) == Ok(2)).await;
    // The sockets' own buffers are bounded, too.
    let text = "x".repeat(60_000);
    let mut published = 0;
    while router.publish("all", &Say { text: text.clone() }) == Ok(2) {
        while reads.next().await["payload"]["text"] != text {}
        published += 1;
        assert!(published < 10_000, "there is no bound");
    }
    until(|| router.connection_count() == 1).await;
    reads.send(say("still there")).await;
    while reads.next().await["payload"]["text"] != "still there" {}
}

async fn client_that_does_not_read_is_disconnected_in_time(server_kind: ServerKind) {
    let router = echo().send_queue(100_000, usize::MAX).send_timeout(Duration::from_millis(100)).build().unwrap();
    let mut client = RawClient::connect(serve(server_kind, &router).await).await;
    until(|| router.connection_count() == 1).await;
    let message = say(&"x".repeat(60_000)).to_string();
    for _ in 0..400 {
        if router.connection_count() == 0 {
            break;
        }
        client.frame(FIN | TEXT, message.as_bytes()).await;
    }
    until(|| router.connection_count() == 0).await;
}

/// An RPC that replies with its text.
#[derive(serde::Deserialize)]
struct Repeat {
    text: String,
}

impl Message for Repeat {
    const TYPE: &'static str = "REPEAT";
}

impl Rpc for Repeat {
    type Reply = Say;
}

async fn client_that_sends_without_reading_is_not_read(server_kind: ServerKind) {
    const MESSAGES: usize = 600;
    let router = echo()
        .send_queue(16, usize::MAX)
        .max_concurrent_rpcs(4)
        .rpc(|_: RpcContext<()>, Repeat { text }: Repeat| async move { Ok(Say { text }) })
        .send_timeout(Duration::from_secs(3_600))
        .build()
        .unwrap();
    let address = serve(server_kind, &router).await;
    for message_type in ["SAY", "REPEAT"] {
        // Far more than the queue holds: the server stops reading before it would have to disconnect.
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
        // Long enough for the server to stall. If it has not, the test only checks less.
        tokio::time::sleep(Duration::from_millis(200)).await;
        let mut answered = 0;
        while answered < MESSAGES {
            match within_timeout(futures_util::StreamExt::next(&mut stream)).await {
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

async fn progress_is_dropped_and_the_reply_is_not(server_kind: ServerKind) {
    let done = Counter::default();
    let counts = done.clone();
    let router: Router<()> = Router::builder()
        .send_queue(16, 1 << 20)
        .send_timeout(Duration::from_secs(3_600))
        .rpc_timeout(Duration::from_secs(3_600))
        .rpc(move |context: RpcContext<()>, _: Add| {
            let counts = counts.clone();
            async move {
                let (mut sent, mut dropped) = (0, 0);
                // More than all buffers on the way to a client that does not read.
                while dropped < 100 {
                    let counted = if context.progress(&"x".repeat(60_000))? { &mut sent } else { &mut dropped };
                    *counted += 1;
                    tokio::task::yield_now().await;
                }
                counts.count();
                Ok(Sum(sent))
            }
        })
        .build()
        .unwrap();
    let mut client = Client::connect(serve(server_kind, &router).await).await;
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

async fn fragmented_message_is_one_message(server_kind: ServerKind) {
    let router = echo().build().unwrap();
    let mut client = RawClient::connect(serve(server_kind, &router).await).await;
    let message = say("in parts: é").to_string();
    let (first, rest) = message.as_bytes().split_at(7);
    // The second ends within a character.
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

/// A router with a maximum of 1,000 bytes that records exceeded bounds.
fn small(on_exceeded: OnExceeded) -> (Router<()>, Arc<Mutex<Vec<LimitExceeded>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&seen);
    let router = echo()
        .max_message_bytes(1_000)
        .on_payload_exceeded(on_exceeded)
        .on_limit_exceeded(move |exceeded| noted.lock().unwrap().push(exceeded.clone()))
        .close_timeout(Duration::from_millis(200))
        .build()
        .unwrap();
    (router, seen)
}

async fn fragments_of_a_large_message_are_disconnected(server_kind: ServerKind) {
    let (router, seen) = small(OnExceeded::Close(close_code::TOO_BIG));
    let mut client = RawClient::connect(serve(server_kind, &router).await).await;
    client.frame(TEXT, &[b'x'; 600]).await;
    client.frame(CONTINUED, &[b'x'; 600]).await;
    assert_eq!(client.closed().await, Some(1_009));
    let seen = seen.lock().unwrap();
    assert_eq!((seen.len(), seen[0].kind, seen[0].limit), (1, ExceededKind::Payload, 1_000));
}

async fn header_of_a_large_frame_is_rejected_before_its_payload(server_kind: ServerKind) {
    let (router, seen) = small(OnExceeded::Close(close_code::TOO_BIG));
    let mut client = RawClient::connect(serve(server_kind, &router).await).await;
    client.header(FIN | TEXT, 1 << 40).await;
    assert_eq!(client.closed().await, Some(1_009), "without a byte of the message");
    assert_eq!(seen.lock().unwrap()[0].observed, 1 << 40);
    until(|| router.connection_count() == 0).await;
}

async fn huge_message_gets_a_close_frame(server_kind: ServerKind) {
    let (router, seen) = small(OnExceeded::Close(4_009));
    let mut client = RawClient::connect(serve(server_kind, &router).await).await;
    client.frame(FIN | TEXT, &vec![b'x'; 20 << 20]).await;
    assert_eq!(client.closed().await, Some(4_009));
    assert_eq!(seen.lock().unwrap().len(), 1);
}

async fn large_message_is_not_read(server_kind: ServerKind) {
    let router = echo().max_message_bytes(1_000).close_timeout(Duration::from_secs(3_600)).build().unwrap();
    let mut client = RawClient::connect(serve(server_kind, &router).await).await;
    client.header(FIN | TEXT, 1 << 40).await;
    assert_eq!(client.closed().await, Some(1_009));
    // More than all buffers hold. A server that read it would need longer on most machines.
    let rest = vec![b'x'; 100 << 20];
    let sent = client.0.write_all(&rest);
    assert!(tokio::time::timeout(Duration::from_secs(1), sent).await.is_err(), "the server reads it");
}

async fn discarded_message_has_a_bound(server_kind: ServerKind) {
    let (router, seen) = small(OnExceeded::Send);
    let mut client = Client::connect(serve(server_kind, &router).await).await;
    client.send_frame(Frame::text("x".repeat(16_000))).await;
    assert_eq!(client.error().await, "FAILED_PRECONDITION");
    client.send_frame(Frame::text("x".repeat(16_001))).await;
    assert_eq!(client.closed().await, Some(1_009));
    let observed: Vec<_> = seen.lock().unwrap().iter().map(|exceeded| exceeded.observed).collect();
    assert_eq!(observed, [16_000, 16_001]);
}

async fn invalid_utf_8_closes_with_1007(server_kind: ServerKind) {
    let router = echo().build().unwrap();
    let mut client = RawClient::connect(serve(server_kind, &router).await).await;
    client.frame(FIN | TEXT, b"{\"type\":\"\xff\"}").await;
    assert_eq!(client.closed().await, Some(1_007));
}

async fn invalid_frames_are_disconnected(server_kind: ServerKind) {
    let router = echo().build().unwrap();
    let address = serve(server_kind, &router).await;
    // A reserved opcode, a reserved bit, a continuation of nothing, a fragmented ping.
    for first in [FIN | 0x3, FIN | 0x40 | TEXT, FIN | CONTINUED, 0x9] {
        let mut client = RawClient::connect(address).await;
        client.frame(first, b"x").await;
        assert_eq!(client.closed().await, Some(1_002), "{first:#x}");
    }
    // Not masked.
    let mut client = RawClient::connect(address).await;
    client.write(&[FIN | TEXT, 2, b'{', b'}']).await;
    assert_eq!(client.closed().await, Some(1_002));
    until(|| router.connection_count() == 0).await;
}

fn standing_still() -> ManualClock {
    ManualClock::new(Timestamp::from_millis(1_700_000_000_000))
}

async fn flood_of_large_messages_is_disconnected(server_kind: ServerKind) {
    let router =
        echo().clock(standing_still()).max_message_bytes(10).on_payload_exceeded(OnExceeded::Send).build().unwrap();
    let mut client = RawClient::connect(serve(server_kind, &router).await).await;
    for number in 0..300 {
        client.frame(FIN | if number % 2 == 0 { TEXT } else { 0x2 }, &[b'x'; 100]).await;
    }
    assert_eq!(client.closed().await, Some(1_008));
}

async fn endless_fragments_are_disconnected(server_kind: ServerKind) {
    let router = echo().max_message_bytes(1_000).build().unwrap();
    let mut client = RawClient::connect(serve(server_kind, &router).await).await;
    client.frame(TEXT, b"{").await;
    // Each is empty, so no length is ever too large.
    let empty = [0, 0x80, 0, 0, 0, 0].repeat(100_000);
    let mut sent = 0;
    while within_timeout(client.0.write_all(&empty)).await.is_ok() {
        sent += 1;
        assert!(sent < 1_000, "it is read for ever");
    }
    until(|| router.connection_count() == 0).await;
}

async fn message_in_single_byte_fragments_is_one_message(server_kind: ServerKind) {
    let router = echo().max_message_bytes(1_000).build().unwrap();
    let mut client = RawClient::connect(serve(server_kind, &router).await).await;
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

async fn events_waiting_for_room_are_dropped_when_the_client_leaves(server_kind: ServerKind) {
    let (handled, sent) = (Counter::default(), Counter::default());
    let (counts, sends) = (handled.clone(), sent.clone());
    let router: Router<()> = Router::builder()
        .send_queue(64, usize::MAX)
        .close_timeout(Duration::from_millis(10))
        .on(move |context: Context<()>, _: Say| {
            // More than the buffers hold, so that the next ones wait for room.
            while sends.get() < 100 && context.send(&Say { text: "x".repeat(60_000) }).is_ok() {
                sends.count();
            }
            counts.count();
            async {}
        })
        .build()
        .unwrap();
    let mut client = RawClient::connect(serve(server_kind, &router).await).await;
    let message = say("").to_string();
    for _ in 0..10 {
        client.frame(FIN | TEXT, message.as_bytes()).await;
    }
    until(|| handled.get() >= 1).await;
    drop(client);
    until(|| handled.get() == 10).await;
    until(|| router.connection_count() == 0).await;
}

async fn flood_of_pings_is_disconnected(server_kind: ServerKind) {
    let router = echo().clock(standing_still()).build().unwrap();
    let mut client = RawClient::connect(serve(server_kind, &router).await).await;
    for _ in 0..300 {
        client.frame(PING, b"").await;
    }
    assert_eq!(client.closed().await, Some(1_008));
}

async fn flood_of_malformed_messages_is_disconnected(server_kind: ServerKind) {
    let router = echo().clock(standing_still()).build().unwrap();
    let mut client = RawClient::connect(serve(server_kind, &router).await).await;
    for number in 0..300 {
        client.frame(FIN | if number % 2 == 0 { TEXT } else { 0x2 }, b"{").await;
    }
    assert_eq!(client.closed().await, Some(1_008));
}

async fn half_a_message_is_not_handled(server_kind: ServerKind) {
    let router = echo().build().unwrap();
    let address = serve(server_kind, &router).await;
    let mut client = RawClient::connect(address).await;
    client.header(FIN | TEXT, 1_000).await;
    client.write(b"{\"type\":").await;
    let mut other = RawClient::connect(address).await;
    other.frame(TEXT, b"{\"type\":").await;
    until(|| router.connection_count() == 2).await;
    drop((client, other));
    until(|| router.connection_count() == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unfinished_handshake_times_out() {
    let router = echo().handshake_timeout(Duration::from_millis(10)).build().unwrap();
    let mut stream = TcpStream::connect(serve(ServerKind::Tungstenite, &router).await).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
    assert_eq!(within_timeout(stream.read(&mut [0; 100])).await.unwrap_or(0), 0, "it is cut off");
}
