//! A request is in flight until the last byte of its response, and no longer.

mod ends;
mod flood;
mod grpc;
mod refusals;

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::Frame;
use tidegate::concurrency::{Concurrency, Controller, Sample};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::support::until;

/// A pool whose limit stays, and what its controller is told: for each piece of work whether it was dropped.
#[derive(Clone)]
struct Watched {
    pool: Concurrency,
    told: Arc<Mutex<Vec<bool>>>,
}

struct Recorder(u32, Arc<Mutex<Vec<bool>>>);

impl Controller for Recorder {
    fn limit(&self) -> u32 {
        self.0
    }

    fn observe(&mut self, sample: &Sample) {
        self.1.lock().unwrap().push(sample.dropped);
    }
}

const DONE: bool = false;
const DROPPED: bool = true;

impl Watched {
    fn new(limit: u32) -> Self {
        let told = Arc::default();
        Watched { pool: Concurrency::adaptive(Recorder(limit, Arc::clone(&told))), told }
    }

    fn in_flight(&self) -> u32 {
        self.pool.in_flight()
    }

    /// Comes back when so many are in flight.
    async fn until_in_flight(&self, count: u32) {
        until(|| self.in_flight() == count).await;
    }

    /// What the controller was told since it was asked last, once nothing is in flight any more.
    async fn told(&self) -> Vec<bool> {
        self.until_in_flight(0).await;
        std::mem::take(&mut *self.told.lock().unwrap())
    }
}

/// A body that is written by hand, and ends when its writer is dropped; it fails after an empty piece.
struct Written(UnboundedReceiver<&'static str>);

fn written() -> (UnboundedSender<&'static str>, Body) {
    let (writer, pieces) = unbounded_channel();
    (writer, Body::new(Written(pieces)))
}

impl HttpBody for Written {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.0.poll_recv(context).map(|piece| match piece {
            Some("") => Some(Err(std::io::Error::other("the source of the body is broken"))),
            piece => piece.map(|text| Ok(Frame::data(Bytes::from_static(text.as_bytes())))),
        })
    }
}
