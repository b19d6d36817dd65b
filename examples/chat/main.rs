//! A chat with rooms, for a browser: run `cargo run --example chat`, then open <http://127.0.0.1:8090/> in two windows.
//!
//! A message counts against three limits: those of its user, its room and its address. Either all of them take it, or
//! none does. After each message, the server sends the page the remaining quotas.

#![allow(clippy::print_stdout, reason = "it says where it is")]

mod messages;

use std::error::Error as StdError;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};

use axum::extract::Query;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::routing::get;
use messages::{ChatMessage, Join, JoinReply, LimitQuota, MemberJoined, MemberLeft, QuotaUpdate, Say, check_length};
use serde::Deserialize;
use tidegate::websocket::{
    self, CloseEvent, Connection, ConnectionData, Context, ErrorCode, Handshake, MessageError, MessageRateLimit,
    Router, RpcContext, keys,
};
use tidegate::{Key, Limiter, Quota, seconds};

/// A connected user and its room.
struct Person {
    name: String,
    room: Mutex<Option<String>>,
}

impl Person {
    fn room(&self) -> Option<String> {
        self.room.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn room_key(&self) -> Option<Key<'static>> {
        self.room().map(|room| Key::from_parts([room]))
    }
}

impl ConnectionData for Person {
    fn user(&self) -> Option<Key<'static>> {
        Some(Key::from_parts([&self.name]))
    }
}

#[derive(Deserialize)]
struct JoinQuery {
    name: String,
}

/// Accepts any name. A real program would identify its users by a cookie or a token.
async fn authenticate(handshake: Handshake) -> Result<Person, MessageError> {
    let Ok(Query(JoinQuery { name })) = Query::try_from_uri(handshake.uri()) else {
        return Err(MessageError::new(ErrorCode::Unauthenticated, "Who are you? Connect to /ws?name=..."));
    };
    check_length("a name", &name, 30).map_err(|message| MessageError::new(ErrorCode::InvalidArgument, message))?;
    Ok(Person { name, room: Mutex::default() })
}

async fn join(limiter: Limiter, context: RpcContext<Person>, join: Join) -> Result<JoinReply, MessageError> {
    let Person { name, room } = context.data();
    let members = {
        // Calls of one connection run concurrently, and a user must be in one room only.
        let mut room = room.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(old) = room.replace(join.room.clone()) {
            context.unsubscribe(&old);
            context.publish(&old, &MemberLeft { name })?;
        }
        context.subscribe(&join.room)?;
        context.publish(&join.room, &MemberJoined { name })? + 1
    };
    // No limit counted this message for the requested room. A check costs nothing.
    let decision = limiter.check("room", Key::from_parts([join.room])).await;
    let decision = decision.map_err(|_| MessageError::new(ErrorCode::Unavailable, "Limits cannot be checked now"))?;
    let others = LimitQuota::from_outcome(&context).filter(|quota| quota.limit != "room");
    context.send(&QuotaUpdate { limits: others.chain([LimitQuota::new("room", &decision)]).collect() })?;
    Ok(JoinReply { members })
}

async fn say(context: Context<Person>, Say { text }: Say) -> Result<(), MessageError> {
    let Some(room) = context.data().room() else {
        return Err(MessageError::new(ErrorCode::FailedPrecondition, "Join a room first"));
    };
    let message = ChatMessage { name: &context.data().name, text: &text };
    context.send(&message)?;
    context.publish(&room, &message)?;
    // The sender gets its quotas, and all members of the room get the quota of the room.
    context.send(&QuotaUpdate { limits: LimitQuota::from_outcome(&context).collect() })?;
    context.publish(
        &room,
        &QuotaUpdate { limits: LimitQuota::from_outcome(&context).filter(|quota| quota.limit == "room").collect() },
    )?;
    Ok(())
}

async fn leave(connection: Connection<Person>, _: CloseEvent) {
    let Person { name, .. } = connection.data();
    if let Some(room) = connection.data().room() {
        let _ = connection.publish(&room, &MemberLeft { name });
    }
}

/// The page. The policy permits only its own script and style, by their hashes. After a change, the console of a
/// browser shows the right hashes.
const PAGE: &str = include_str!("page.html");
const POLICY: &str = "default-src 'none'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; \
    frame-ancestors 'none'; \
    script-src 'sha256-7R1MK7Pa60Hz5RQw5hON6FUmwxta5W+ntgJswOae7vU='; \
    style-src 'sha256-ylzrtXbGxMSNPnvVBJSO5Gk5HqMIrj9KZxGrZeE1Vww='";

#[tokio::main]
async fn main() -> Result<(), Box<dyn StdError>> {
    let limiter = Limiter::builder()
        .limit("user", Quota::token_bucket(1, seconds(2))?.capacity(5)?)
        .limit("room", Quota::token_bucket(2, seconds(1))?.capacity(20)?)
        .limit("address", Quota::token_bucket(5, seconds(1))?.capacity(40)?)
        .build()?;
    // A user in no room yet is counted under its address instead.
    let limits = MessageRateLimit::new(limiter.enforcer("user")?.and("room")?.and("address")?).key_each([
        keys::user(),
        keys::room(Person::room_key),
        keys::address(),
    ]);
    let router = Router::builder()
        .rate_limit(limits)
        .max_message_bytes(4 * 1024)
        .rpc(move |context, message: Join| join(limiter.clone(), context, message))
        .on(say)
        .on_close(leave)
        .authenticate(authenticate)?;

    let headers = [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    let app = axum::Router::new()
        .route("/", get(move || async move { (headers, PAGE) }))
        .route("/ws", websocket::route(router));

    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8090".to_owned());
    let listener = tokio::net::TcpListener::bind(address).await?;
    println!("Chat at http://{}/", listener.local_addr()?);
    Ok(axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?)
}
