//! The server that the script connects to.

use std::future::pending;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};
use tidegate::websocket::{
    self, Context, ErrorCode, Message, MessageError, MessageRateLimit, Router, Rpc, RpcContext, keys,
};
use tidegate::{Limiter, ManualClock, MemoryStore, Quota, Timestamp, seconds};

#[derive(Deserialize, Serialize)]
struct Say {
    text: String,
}
#[derive(Serialize)]
struct SayEcho {
    text: String,
}
#[derive(Deserialize)]
struct Ping;
#[derive(Serialize)]
struct Pong;
#[derive(Deserialize)]
struct Add {
    a: u64,
    b: u64,
}
#[derive(Serialize)]
struct Sum {
    sum: u64,
}
/// Costs more than its limit has.
#[derive(Deserialize)]
struct Big;
#[derive(Deserialize, Serialize)]
struct Count {
    to: u64,
}
#[derive(Serialize)]
struct CountReply {
    to: u64,
}
#[derive(Deserialize)]
struct Fail {
    code: String,
}
/// Never answered.
#[derive(Deserialize)]
struct Wait;
#[derive(Deserialize)]
struct CountEnded;
#[derive(Serialize)]
struct EndedCount {
    calls: u64,
}

macro_rules! messages {
    ($($message:ty = $name:literal $(=> $reply:ty)?,)*) => { $(
        impl Message for $message {
            const TYPE: &'static str = $name;
        }
        $(impl Rpc for $message {
            type Reply = $reply;
        })?
    )* };
}

messages! {
    Say = "SAY",
    SayEcho = "SAID",
    Ping = "PING",
    Pong = "PONG",
    Add = "ADD" => Sum,
    Sum = "SUM",
    Big = "BIG" => Pong,
    Count = "COUNT" => CountReply,
    CountReply = "COUNTED",
    Fail = "FAIL" => Pong,
    Wait = "WAIT" => Pong,
    CountEnded = "HOW_MANY_ENDED" => EndedCount,
    EndedCount = "ENDED",
}

const CODES: [ErrorCode; 13] = [
    ErrorCode::Unauthenticated,
    ErrorCode::PermissionDenied,
    ErrorCode::InvalidArgument,
    ErrorCode::FailedPrecondition,
    ErrorCode::NotFound,
    ErrorCode::AlreadyExists,
    ErrorCode::Unimplemented,
    ErrorCode::Cancelled,
    ErrorCode::DeadlineExceeded,
    ErrorCode::ResourceExhausted,
    ErrorCode::Unavailable,
    ErrorCode::Aborted,
    ErrorCode::Internal,
];

/// Counts the RPCs that have ended in any way.
struct Guard(Arc<AtomicU64>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn router() -> Router<()> {
    // A manual clock: no units are replenished, and retry hints are exact.
    let clock = ManualClock::new(Timestamp::from_millis(1_699_123_456_789));
    let quota = Quota::token_bucket(1, seconds(2)).unwrap().capacity(2).unwrap();
    let limiter =
        Limiter::builder().limit("send", quota).store(MemoryStore::builder().clock(clock).build()).build().unwrap();
    let limits = MessageRateLimit::new(limiter.enforcer("send").unwrap())
        .key(keys::both(keys::connection(), keys::message_type()))
        .cost_of(|head| if head.message_type() == Some(Big::TYPE) { 3 } else { 1 })
        .skip(|head| !matches!(head.message_type(), Some(Say::TYPE | Add::TYPE | Big::TYPE)));
    let ended = Arc::new(AtomicU64::new(0));
    let guard = Arc::clone(&ended);
    Router::builder()
        .rate_limit(limits)
        .on(|context: Context<()>, Say { text }: Say| async move { context.send(&SayEcho { text }) })
        .on(|context: Context<()>, _: Ping| async move { context.send(&Pong) })
        .rpc(|_: RpcContext<()>, Add { a, b }: Add| async move { Ok(Sum { sum: a + b }) })
        .rpc(|_: RpcContext<()>, _: Big| async move { Ok(Pong) })
        .rpc(|context: RpcContext<()>, Count { to }: Count| async move {
            for number in 1..=to {
                context.progress(&Count { to: number })?;
            }
            Ok(CountReply { to })
        })
        .rpc(|_: RpcContext<()>, Fail { code }: Fail| async move {
            match CODES.into_iter().find(|known| known.as_str() == code) {
                Some(code) => Err(MessageError::new(code, "as you like").with_detail("because", "it was asked for")),
                None => Ok(Pong),
            }
        })
        .rpc(move |context: RpcContext<()>, _: Wait| {
            let guard = Guard(Arc::clone(&guard));
            async move {
                let _guard = guard;
                context.progress(&"waiting")?;
                pending().await
            }
        })
        .rpc(move |_: RpcContext<()>, _: CountEnded| {
            let calls = ended.load(Ordering::SeqCst);
            async move { Ok(EndedCount { calls }) }
        })
        .build()
        .unwrap()
}

/// Serves for the rest of the test.
pub(crate) async fn start() -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = axum::Router::new().route("/ws", websocket::route(router()));
    let service = app.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, service).await });
    address
}
