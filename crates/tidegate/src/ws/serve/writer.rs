//! What is sent to a peer.

use std::future::poll_fn;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Sink, SinkExt};
use tokio::time::timeout;

use super::super::queue::{Next, Queue};
use super::super::socket::{Broken, Sent};
use super::Ending;
use super::heartbeat::Pulse;

/// Sends what waits in the queue, and pings when they are due.
pub(super) struct Writer<'a, S> {
    sink: S,
    queue: &'a Queue,
    pulse: &'a Pulse,
    send_timeout: Duration,
    /// Out of the queue, and not in the socket yet: sending may be given up at any point, and gone on with.
    next: Option<Bytes>,
}

impl<'a, S: Sink<Sent, Error = Broken> + Unpin> Writer<'a, S> {
    pub(super) fn new(sink: S, queue: &'a Queue, pulse: &'a Pulse, send_timeout: Duration) -> Self {
        Writer { sink, queue, pulse, send_timeout, next: None }
    }

    /// Sends until there is a reason to end.
    pub(super) async fn run(&mut self) -> Ending {
        loop {
            // A peer that does not read costs its own connection, and nobody else anything.
            match timeout(self.send_timeout, self.turn()).await {
                Ok(Ok(true)) => {}
                Ok(Ok(false)) => tokio::select! {
                    () = self.queue.filled() => {}
                    () = self.pulse.asked() => {}
                },
                Ok(Err(_)) => return Ending::gone(),
                Err(_) => return Ending::Lost("the peer does not read"),
            }
        }
    }

    /// Sends a ping that is due, and one message. Says whether there was one.
    async fn turn(&mut self) -> Result<bool, Broken> {
        if self.pulse.is_due() {
            self.sink.send(Sent::Ping).await?;
            self.pulse.sent();
        }
        self.step().await
    }

    /// Sends one message, or makes sure that all that were sent are on their way. Says whether there was one.
    async fn step(&mut self) -> Result<bool, Broken> {
        if self.next.is_none() {
            match self.queue.pop() {
                Next::Message(message) => self.next = Some(message),
                Next::Empty | Next::End => {
                    self.sink.flush().await?;
                    return Ok(false);
                }
            }
        }
        poll_fn(|context| self.sink.poll_ready_unpin(context)).await?;
        if let Some(message) = self.next.take() {
            self.sink.start_send_unpin(Sent::Text(message))?;
        }
        Ok(true)
    }

    /// Sends what is left, and a goodbye.
    pub(super) async fn say_goodbye(&mut self, code: u16, reason: &str) -> Result<(), Broken> {
        while self.step().await? {}
        self.sink.send(Sent::close(code, reason)).await
    }

    /// Sends what the socket has to say by itself.
    pub(super) async fn close(&mut self) -> Result<(), Broken> {
        self.sink.close().await
    }
}
