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
    /// | `/outcome` | [`App::outcome`], with the outcome that the gate passes to handlers |
    /// | `/stream` | [`App::stream`], streamed |
    fn serve(app: App, sender: AddressSender);
}

/// The app that every framework serves. Clones share state.
#[derive(Clone)]
pub struct App {
    gate: Gate,
    served: Arc<AtomicUsize>,
    chunks: Arc<Mutex<Option<UnboundedReceiver<&'static str>>>>,
    pub(super) writer: UnboundedSender<&'static str>,
}

impl App {
    pub(super) fn new(gate: Gate) -> Self {
        let (writer, chunks) = unbounded_channel();
        App { gate, served: Arc::default(), chunks: Arc::new(Mutex::new(Some(chunks))), writer }
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
    pub fn outcome(&self, outcome: Option<&Outcome>) -> String {
        self.served.fetch_add(1, Ordering::SeqCst);
        let remaining =
            outcome.map(|outcome| outcome.limit_decisions().first().map(|limit| limit.decision().remaining()));
        format!("{remaining:?}")
    }

    /// Returns a body that is streamed. Panics the second time.
    pub fn stream(&self) -> BodyStream {
        self.served.fetch_add(1, Ordering::SeqCst);
        let chunks = self.chunks.lock().unwrap_or_else(PoisonError::into_inner).take();
        BodyStream(chunks.expect("asked for once"))
    }

    /// Returns the number of requests that reached a handler.
    pub(super) fn served(&self) -> usize {
        self.served.load(Ordering::SeqCst)
    }

    /// Serves the app with a framework, on a detached thread.
    pub(super) fn start<A: Adapter>(&self) -> SocketAddr {
        let app = self.clone();
        AddressSender::start_server(move |sender| A::serve(app, sender))
    }
}

/// A channel on which a server reports the address it listens on.
pub struct AddressSender(mpsc::Sender<SocketAddr>);

impl AddressSender {
    /// Runs a server on a detached thread, and returns the address that it reports.
    pub fn start_server(serve: impl FnOnce(AddressSender) + Send + 'static) -> SocketAddr {
        let (sender, address) = mpsc::channel();
        thread::spawn(move || serve(AddressSender(sender)));
        address.recv_timeout(Duration::from_secs(60)).expect("the server reports no address")
    }

    /// Reports the address. Requests may arrive from now on.
    pub fn send(self, address: SocketAddr) {
        // The receiver is gone if the case has already failed.
        let _ = self.0.send(address);
    }

    /// Binds a loopback port, reports it, and serves on a tokio runtime of its own.
    pub fn serve_on_tokio<F: Future<Output = ()>>(self, serve: impl FnOnce(TcpListener) -> F) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            self.send(listener.local_addr().expect("an address"));
            serve(listener).await;
        });
    }
}

/// A streamed body. An empty chunk ends it.
pub struct BodyStream(UnboundedReceiver<&'static str>);

impl Stream for BodyStream {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let chunk = |chunk: Option<&'static str>| chunk.filter(|chunk| !chunk.is_empty());
        self.0.poll_recv(context).map(|next| chunk(next).map(|text| Ok(Bytes::from_static(text.as_bytes()))))
    }
}
