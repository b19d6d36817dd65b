//! Servers, clients and messages for the tests.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tidegate::websocket::{self, ConnectionData, ErrorCode, Message, MessageError, Router, Rpc};
use tidegate::{Key, Quota, minutes};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::Message as Frame;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

/// The kind of server.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ServerKind {
    Tungstenite,
    Axum,
}

/// Runs each test on both kinds of server.
macro_rules! for_every_server {
    ($($name:ident),* $(,)?) => {
        mod on_tungstenite {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                super::$name(crate::support::ServerKind::Tungstenite).await;
            })*
        }

        mod on_axum {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                super::$name(crate::support::ServerKind::Axum).await;
            })*
        }
    };
}
pub(crate) use for_every_server;

/// Serves a router on a free loopback port.
pub(crate) async fn serve<D: ConnectionData>(server_kind: ServerKind, router: &Router<D>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = router.clone();
    match server_kind {
        ServerKind::Tungstenite => tokio::spawn(async move {
            loop {
                let (stream, peer) = listener.accept().await.unwrap();
                let router = router.clone();
                tokio::spawn(async move { drop(router.accept(stream, Some(peer.ip())).await) });
            }
        }),
        ServerKind::Axum => tokio::spawn(async move {
            let app = axum::Router::new().route("/", websocket::route(router));
            axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await.unwrap();
        }),
    };
    address
}

/// The timeout of a test's waits. No measurement depends on it.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Awaits a future within the timeout.
pub(crate) async fn within_timeout<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(TIMEOUT, future).await.expect("the wait timed out")
}

/// Waits for a condition.
pub(crate) async fn until(condition: impl Fn() -> bool) {
    within_timeout(async {
        while !condition() {
            // Yields to other work on machines with few cores.
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
}

pub(crate) type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// A client.
pub(crate) struct Client(pub(crate) Socket);

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        Self::connect_as(address, "").await
    }

    /// Connects as a user.
    pub(crate) async fn connect_as(address: SocketAddr, name: &str) -> Self {
        let mut request = format!("ws://{address}/?name={name}").into_client_request().unwrap();
        request.headers_mut().insert("x-forwarded-for", "192.0.2.9".parse().unwrap());
        Client(within_timeout(connect_async(request)).await.unwrap().0)
    }

    pub(crate) async fn send(&mut self, message: Value) {
        self.send_frame(Frame::text(message.to_string())).await;
    }

    pub(crate) async fn send_frame(&mut self, frame: Frame) {
        within_timeout(self.0.send(frame)).await.unwrap();
    }

    /// Sends an RPC without waiting for its answer.
    pub(crate) async fn call(&mut self, id: &str, message_type: &str, payload: Value) {
        self.send(json!({ "type": message_type, "meta": { "correlationId": id }, "payload": payload })).await;
    }

    /// Returns the next frame that is not a ping or pong; `None` at the end.
    pub(crate) async fn frame(&mut self) -> Option<Frame> {
        loop {
            match within_timeout(self.0.next()).await? {
                Ok(Frame::Ping(_) | Frame::Pong(_)) => {}
                Ok(frame) => return Some(frame),
                Err(_) => return None,
            }
        }
    }

    /// Returns the next message, without its timestamp.
    pub(crate) async fn next(&mut self) -> Value {
        match self.frame().await {
            Some(Frame::Text(text)) => {
                let mut message: Value = serde_json::from_str(&text).unwrap();
                let meta = message["meta"].as_object_mut().unwrap();
                assert!(meta.remove("timestamp").unwrap().as_u64().unwrap() > 1_600_000_000_000);
                message
            }
            other => panic!("no message: {other:?}"),
        }
    }

    /// Returns the code of the next message, an error.
    pub(crate) async fn error(&mut self) -> String {
        let message = self.next().await;
        assert_eq!(message["type"], "ERROR", "{message}");
        message["payload"]["code"].as_str().unwrap().to_owned()
    }

    /// Returns the server's close code, after any messages before it.
    pub(crate) async fn closed(&mut self) -> Option<u16> {
        loop {
            match self.frame().await? {
                Frame::Close(frame) => return frame.map(|frame| frame.code.into()),
                _ => continue,
            }
        }
    }
}

/// The user of a connection: the name in the query.
#[derive(Debug, Default)]
pub(crate) struct User {
    pub(crate) name: String,
}

impl ConnectionData for User {
    fn user(&self) -> Option<Key<'static>> {
        (!self.name.is_empty()).then(|| Key::from_parts([&self.name]))
    }
}

/// Authenticates every user except mallory.
pub(crate) async fn by_name(handshake: websocket::Handshake) -> Result<User, MessageError> {
    let name = handshake.uri().query().and_then(|query| query.strip_prefix("name=")).unwrap_or_default();
    match name {
        "mallory" => Err(MessageError::new(ErrorCode::Unauthenticated, "Who?")),
        name => Ok(User { name: name.to_owned() }),
    }
}

/// An event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Say {
    pub(crate) text: String,
}

impl Message for Say {
    const TYPE: &'static str = "SAY";

    fn validate(&self) -> Result<(), String> {
        if self.text == "no" { Err("not that".to_owned()) } else { Ok(()) }
    }
}

pub(crate) fn say(text: &str) -> Value {
    json!({ "type": "SAY", "payload": { "text": text } })
}

/// An RPC.
#[derive(Debug, Deserialize)]
pub(crate) struct Add(pub(crate) u64, pub(crate) u64);

impl Message for Add {
    const TYPE: &'static str = "ADD";
}

#[derive(Debug, Serialize)]
pub(crate) struct Sum(pub(crate) u64);

impl Message for Sum {
    const TYPE: &'static str = "SUM";
}

impl Rpc for Add {
    type Reply = Sum;
}

/// A shared counter for handlers and hooks.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counter(Arc<AtomicU64>);

impl Counter {
    pub(crate) fn count(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// A quota that does not replenish during a test.
pub(crate) fn quota(rate: u64) -> Quota {
    Quota::fixed_window(rate, minutes(60 * 24 * 300)).unwrap()
}
