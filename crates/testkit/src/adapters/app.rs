//! The small app that every framework serves.

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
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// A framework under test.
pub trait Adapter {
    /// Whether it can send a body piece by piece.
    const STREAMS: bool = true;
    /// Whether it knows the template of the route that a request has taken.
    const ROUTES: bool = true;

    /// Serves the app on a port of loopback, says where, and goes on for as long as it likes: it has a thread of its own.
    ///
    /// | path, with `GET` | answer |
    /// | --- | --- |
    /// | `/` and `/users/{id}` | [`App::page`] |
    /// | `/fails` | [`App::failure`], with status 401 and a header `x-app: mine` |
    /// | `/told` | [`App::told`], with the outcome that the gate has handed over |
    /// | `/stream` | [`App::stream`], piece by piece |
    fn serve(app: App, listening: Listening);
}

/// The small app that every framework serves. Clones are the same.
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

    /// What stands in front of it.
    pub fn gate(&self) -> Gate {
        self.gate.clone()
    }

    /// A page.
    pub fn page(&self) -> &'static str {
        self.served.fetch_add(1, Ordering::SeqCst);
        "ok"
    }

    /// An answer to go with status 401.
    pub fn failure(&self) -> &'static str {
        self.served.fetch_add(1, Ordering::SeqCst);
        "no"
    }

    /// What a handler says of what it was told.
    pub fn told(&self, outcome: Option<&Outcome>) -> String {
        self.served.fetch_add(1, Ordering::SeqCst);
        let remaining = outcome.map(|outcome| outcome.rulings().first().map(|ruling| ruling.decision().remaining()));
        format!("{remaining:?}")
    }

    /// A body that comes piece by piece. Asked for once.
    pub fn stream(&self) -> Pieces {
        self.served.fetch_add(1, Ordering::SeqCst);
        let pieces = self.pieces.lock().unwrap_or_else(PoisonError::into_inner).take();
        Pieces(pieces.expect("asked for once"))
    }

    /// How many requests have reached a handler.
    pub(super) fn served(&self) -> usize {
        self.served.load(Ordering::SeqCst)
    }

    /// Lets a framework serve it, on a thread that is left to itself.
    pub(super) fn start<A: Adapter>(&self) -> SocketAddr {
        let (app, (told, address)) = (self.clone(), mpsc::channel());
        thread::spawn(move || A::serve(app, Listening(told)));
        address.recv_timeout(Duration::from_secs(60)).expect("the app does not say where it listens")
    }
}

/// Told where an app listens.
pub struct Listening(mpsc::Sender<SocketAddr>);

impl Listening {
    /// There; requests can come.
    pub fn at(self, address: SocketAddr) {
        // Nobody is there when the case has failed already.
        let _ = self.0.send(address);
    }
}

/// A body that comes piece by piece, and ends when the case says so.
pub struct Pieces(UnboundedReceiver<&'static str>);

/// An empty piece is the end.
impl Stream for Pieces {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let piece = |piece: Option<&'static str>| piece.filter(|piece| !piece.is_empty());
        self.0.poll_recv(context).map(|next| piece(next).map(|text| Ok(Bytes::from_static(text.as_bytes()))))
    }
}
