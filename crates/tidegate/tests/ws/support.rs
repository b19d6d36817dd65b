//! Servers, clients and messages.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tidegate::ws::{self, Call, Code, Data, Error, Message, Router};
use tidegate::{Key, Quota, minutes};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::Message as Frame;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

/// What the server is made with.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Over {
    Tungstenite,
    Axum,
}

/// One test for each kind of server.
macro_rules! over_both {
    ($($name:ident),* $(,)?) => {
        mod over_tungstenite {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                super::$name(crate::support::Over::Tungstenite).await;
            })*
        }

        mod over_axum {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                super::$name(crate::support::Over::Axum).await;
            })*
        }
    };
}
pub(crate) use over_both;

/// Serves a router on a free port of the loopback.
pub(crate) async fn serve<D: Data>(over: Over, router: &Router<D>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = router.clone();
    match over {
        Over::Tungstenite => tokio::spawn(async move {
            loop {
                let (stream, peer) = listener.accept().await.unwrap();
                let router = router.clone();
                tokio::spawn(async move { drop(router.accept(stream, Some(peer.ip())).await) });
            }
        }),
        Over::Axum => tokio::spawn(async move {
            let app = axum::Router::new().route("/", ws::route(router));
            axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await.unwrap();
        }),
    };
    address
}

/// What a test waits for at most. Nothing is measured by it.
const PATIENCE: Duration = Duration::from_secs(30);

/// Ends with the future, or with the test.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("it does not happen")
}

/// Ends when something is so.
pub(crate) async fn until(is_so: impl Fn() -> bool) {
    soon(async {
        while !is_so() {
            // Others have work to do, on machines with few cores.
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

    /// A client that says who it is.
    pub(crate) async fn connect_as(address: SocketAddr, name: &str) -> Self {
        let mut request = format!("ws://{address}/?name={name}").into_client_request().unwrap();
        request.headers_mut().insert("x-forwarded-for", "192.0.2.9".parse().unwrap());
        Client(soon(connect_async(request)).await.unwrap().0)
    }

    pub(crate) async fn send(&mut self, message: Value) {
        self.send_frame(Frame::text(message.to_string())).await;
    }

    pub(crate) async fn send_frame(&mut self, frame: Frame) {
        soon(self.0.send(frame)).await.unwrap();
    }

    /// A call without waiting for its answer.
    pub(crate) async fn call(&mut self, id: &str, message_type: &str, payload: Value) {
        self.send(json!({ "type": message_type, "meta": { "correlationId": id }, "payload": payload })).await;
    }

    /// The next frame that is no ping or pong; none at the end.
    pub(crate) async fn frame(&mut self) -> Option<Frame> {
        loop {
            match soon(self.0.next()).await? {
                Ok(Frame::Ping(_) | Frame::Pong(_)) => {}
                Ok(frame) => return Some(frame),
                Err(_) => return None,
            }
        }
    }

    /// The next message, without its time.
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

    /// The code of the error that comes next.
    pub(crate) async fn error(&mut self) -> String {
        let message = self.next().await;
        assert_eq!(message["type"], "ERROR", "{message}");
        message["payload"]["code"].as_str().unwrap().to_owned()
    }

    /// The code that the server closes with, after whatever comes before.
    pub(crate) async fn closed(&mut self) -> Option<u16> {
        loop {
            match self.frame().await? {
                Frame::Close(frame) => return frame.map(|frame| frame.code.into()),
                _ => continue,
            }
        }
    }
}

/// Who a connection is: the name in the query.
#[derive(Debug, Default)]
pub(crate) struct User {
    pub(crate) name: String,
}

impl Data for User {
    fn user(&self) -> Option<Key<'static>> {
        (!self.name.is_empty()).then(|| Key::from_parts([&self.name]))
    }
}

/// Lets everybody in but mallory.
pub(crate) async fn by_name(handshake: ws::Handshake) -> Result<User, Error> {
    let name = handshake.uri().query().and_then(|query| query.strip_prefix("name=")).unwrap_or_default();
    match name {
        "mallory" => Err(Error::new(Code::Unauthenticated, "Who?")),
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

/// A call.
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

impl Call for Add {
    type Reply = Sum;
}

/// A number that handlers and hooks count with.
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

/// So many in a time that no test lives to see the end of.
pub(crate) fn quota(rate: u64) -> Quota {
    Quota::fixed_window(rate, minutes(60 * 24 * 300)).unwrap()
}
