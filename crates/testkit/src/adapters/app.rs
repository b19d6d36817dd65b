//! The app that every framework serves for the suite.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use futures_core::Stream;
use tidegate::enforce::Outcome;
use tidegate::http::Gate;
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// A framework under test.
pub trait Adapter {
    /// Whether the framework can stream a body.
    const STREAMS: bool = true;
    /// Whether the framework knows the template of a request's route.
    const ROUTES: bool = true;
    /// Whether the server takes HTTP/2 without TLS and without an upgrade.
    const HTTP2: bool = false;

    /// Serves the app on a loopback port, reports the address, and runs until the test ends, on a thread of its own.
    ///
    /// | path, with `GET` | answer |
    /// | --- | --- |
    /// | `/` and `/users/{id}` | [`App::page`] |
    /// | `/fails` | [`App::failure`], with status 401 and a header `x-app: mine` |
    /// | `/told` | [`App::told`], with the outcome that the gate passes to handlers |
    /// | `/stream` | [`App::stream`], streamed |
    fn serve(app: App, listening: Listening);
}

/// The app that every framework serves. Clones share state.
#[derive(Clone)]
pub struct App {
    gate: Gate,
    served: Arc<AtomicUsize>,
    pieces: Arc<Mutex<Option<UnboundedReceiver<&'static str>>>>,
    pub(super) writer: UnboundedSender<&'static str>,
}

impl App {
    pub(super) fn new(gate: Gate) -> Self {
        let (writer, pieces) = unbounded_channel();
        App { gate, served: Arc::default(), pieces: Arc::new(Mutex::new(Some(pieces))), writer }
    }

    /// Returns the gate that belongs in front of the app.
    pub fn gate(&self) -> Gate {
        self.gate.clone()
    }

    /// Returns a page.
    pub fn page(&self) -> &'static str {
        self.served.fetch_add(1, Ordering::SeqCst);
        "ok"
    }

    /// Returns a body for status 401.
    pub fn failure(&self) -> &'static str {
        self.served.fetch_add(1, Ordering::SeqCst);
        "no"
    }

    /// Returns the outcome as a page.
    pub fn told(&self, outcome: Option<&Outcome>) -> String {
        self.served.fetch_add(1, Ordering::SeqCst);
        let remaining =
            outcome.map(|outcome| outcome.limit_decisions().first().map(|limit| limit.decision().remaining()));
        format!("{remaining:?}")
    }

    /// Returns a body that is streamed. Panics the second time.
    pub fn stream(&self) -> Pieces {
        self.served.fetch_add(1, Ordering::SeqCst);
        let pieces = self.pieces.lock().unwrap_or_else(PoisonError::into_inner).take();
        Pieces(pieces.expect("asked for once"))
    }

    /// Returns how many requests have reached a handler.
    pub(super) fn served(&self) -> usize {
        self.served.load(Ordering::SeqCst)
    }

    /// Serves the app with a framework, on a detached thread.
    pub(super) fn start<A: Adapter>(&self) -> SocketAddr {
        let app = self.clone();
        Listening::open(move |listening| A::serve(app, listening))
    }
}

/// Receives the address at which a server listens.
pub struct Listening(mpsc::Sender<SocketAddr>);

impl Listening {
    /// Runs a server on a detached thread, and returns the address that it reports.
    pub fn open(serve: impl FnOnce(Listening) + Send + 'static) -> SocketAddr {
        let (sender, address) = mpsc::channel();
        thread::spawn(move || serve(Listening(sender)));
        address.recv_timeout(Duration::from_secs(60)).expect("the server reports no address")
    }

    /// Reports the address. Requests may come from now on.
    pub fn at(self, address: SocketAddr) {
        // The receiver is gone when the case has failed already.
        let _ = self.0.send(address);
    }

    /// Binds a loopback port, reports it, and serves on a tokio runtime of its own.
    pub fn on_tokio<F: Future<Output = ()>>(self, serve: impl FnOnce(TcpListener) -> F) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            self.at(listener.local_addr().expect("an address"));
            serve(listener).await;
        });
    }
}

/// A streamed body. An empty piece ends it.
pub struct Pieces(UnboundedReceiver<&'static str>);

impl Stream for Pieces {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let piece = |piece: Option<&'static str>| piece.filter(|piece| !piece.is_empty());
        self.0.poll_recv(context).map(|next| piece(next).map(|text| Ok(Bytes::from_static(text.as_bytes()))))
    }
}
