//! Requests in flight: a request holds its permits until the last byte of its response.

mod completion;
mod flood;
mod grpc;
mod rejections;

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::Frame;
use tidegate::concurrency::{Concurrency, Controller, Sample};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::support::until;

/// A pool with a fixed limit, and the samples of its controller: for each piece of work, whether it was dropped.
#[derive(Clone)]
struct WatchedPool {
    pool: Concurrency,
    samples: Arc<Mutex<Vec<bool>>>,
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

impl WatchedPool {
    fn new(limit: u32) -> Self {
        let samples = Arc::default();
        WatchedPool { pool: Concurrency::adaptive(Recorder(limit, Arc::clone(&samples))), samples }
    }

    fn in_flight(&self) -> u32 {
        self.pool.in_flight()
    }

    /// Waits until `count` requests are in flight.
    async fn until_in_flight(&self, count: u32) {
        until(|| self.in_flight() == count).await;
    }

    /// Waits until nothing is in flight, and takes the samples.
    async fn samples(&self) -> Vec<bool> {
        self.until_in_flight(0).await;
        std::mem::take(&mut *self.samples.lock().unwrap())
    }
}

/// A body whose chunks come from a channel. It ends when the sender is dropped, and fails after an empty chunk.
struct ChannelBody(UnboundedReceiver<&'static str>);

fn channel_body() -> (UnboundedSender<&'static str>, Body) {
    let (writer, pieces) = unbounded_channel();
    (writer, Body::new(ChannelBody(pieces)))
}

impl HttpBody for ChannelBody {
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
