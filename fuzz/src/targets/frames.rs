//! Frames of a WebSocket, and messages in them.

use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use futures_util::StreamExt;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tidegate::websocket::{Context, Message, MessageRateLimit, OnExceeded, Router, Rpc, RpcContext, keys};
use tidegate::{Limiter, ManualClock, MemoryStore, Quota, Timestamp, minutes};
use tokio::io::{AsyncWriteExt, duplex, split};
use tokio::runtime::{Builder, Runtime};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message as Frame;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

use super::take;

/// Checks that no bytes after the handshake panic, in reads of any size. The connection ends with the client. It
/// handles no more messages than the limit admits, and the same ones in the same order for every read size. Everything
/// it sends is a message of the protocol.
///
/// The input is a byte for the read size, and the bytes to send.
pub fn frames(data: &[u8]) {
    let (cut, data) = take(data);
    let whole = handle_frames(data, data.len().max(1));
    assert_eq!(handle_frames(data, usize::from(cut).max(1)), whole, "it matters how it is cut");
}

const MAX_ADMITTED: u64 = 3;
const MAX_MESSAGE_BYTES: usize = 100;

#[derive(Debug, Deserialize)]
struct Say {
    text: String,
}

impl Message for Say {
    const TYPE: &'static str = "SAY";
}

#[derive(Debug, Deserialize)]
struct Ping;

impl Message for Ping {
    const TYPE: &'static str = "ASK";
}

#[derive(Serialize)]
struct Pong;

impl Message for Pong {
    const TYPE: &'static str = "ANSWER";
}

impl Rpc for Ping {
    type Reply = Pong;
}

/// Returns the texts that the handler of an event received, when that many bytes are sent at a time.
fn handle_frames(data: &[u8], step: usize) -> Vec<String> {
    static RUNTIME: LazyLock<Runtime> =
        LazyLock::new(|| Builder::new_current_thread().enable_time().build().expect("a runtime"));
    RUNTIME.block_on(async {
        let texts = Arc::new(Mutex::new(Vec::new()));
        let router = router(&texts);
        let (ours, theirs) = duplex(1 << 16);
        let config = WebSocketConfig::default()
            .max_message_size(Some(4 * MAX_MESSAGE_BYTES))
            .max_frame_size(Some(4 * MAX_MESSAGE_BYTES));
        let socket = WebSocketStream::from_raw_socket(theirs, Role::Server, Some(config)).await;
        let (reads, mut writes) = split(ours);
        let sending = async {
            for part in data.chunks(step) {
                // A closed connection accepts no more bytes.
                let _ = writes.write_all(part).await;
                tokio::task::yield_now().await;
            }
            let _ = writes.shutdown().await;
        };
        let reading = async {
            let reads = tokio::io::join(reads, tokio::io::sink());
            let mut answers = WebSocketStream::from_raw_socket(reads, Role::Client, None).await;
            while let Some(Ok(frame)) = answers.next().await {
                if let Frame::Text(text) = frame {
                    assert_is_message(&text);
                }
            }
        };
        tokio::join!(router.serve(socket, (), None), sending, reading);
        // Events that were received are handled to their end, even after the connection has ended.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        let texts = texts.lock().expect("no panic").clone();
        assert!(texts.len() as u64 <= MAX_ADMITTED, "{texts:?}");
        texts
    })
}

fn router(texts: &Arc<Mutex<Vec<String>>>) -> Router<()> {
    let clock = ManualClock::new(Timestamp::from_millis(1_700_000_000_000));
    let store = MemoryStore::builder().max_keys(16).clock(clock.clone()).build();
    let quota = Quota::fixed_window(MAX_ADMITTED, minutes(1)).expect("two numbers above 0");
    let limiter = Limiter::builder().limit("send", quota).store(store).build().expect("one limit");
    let texts = Arc::clone(texts);
    Router::builder()
        .clock(clock)
        .rate_limit(MessageRateLimit::new(limiter.enforcer("send").unwrap()).key(keys::global()))
        .max_message_bytes(MAX_MESSAGE_BYTES)
        .on_payload_exceeded(OnExceeded::Send)
        .close_timeout(Duration::from_millis(1))
        .no_heartbeat()
        .on(move |_: Context<()>, say: Say| {
            texts.lock().expect("no panic").push(say.text);
            async {}
        })
        .rpc(|_: RpcContext<()>, _: Ping| async { Ok(Pong) })
        .build()
        .expect("the types and the limit are valid")
}

fn assert_is_message(text: &str) {
    let message: Value = serde_json::from_str(text).expect("JSON");
    let has_id = message["meta"]["correlationId"].is_string();
    assert!(message["meta"]["timestamp"].is_u64(), "{text}");
    match message["type"].as_str() {
        Some("ANSWER") => assert!(has_id, "{text}"),
        Some(error @ ("ERROR" | "RPC_ERROR")) => {
            assert_eq!(has_id, error == "RPC_ERROR", "{text}");
            assert!(message["payload"]["code"].is_string(), "{text}");
        }
        _ => panic!("{text}"),
    }
}
