//! The session of one connection: reading, writing, heartbeat and the closing handshake.

use std::future::{pending, poll_fn};
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{FutureExt, Sink, SinkExt, Stream, StreamExt};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use super::builder::HeartbeatSettings;
use super::pipeline::Pipeline;
use super::queue::{Dequeued, SendQueue};
use super::socket::{InboundFrame, MessageSocket, OutboundFrame, SocketError};
use super::{CloseEvent, ConnectionData, MessageError, Router, close_code, wire};
use crate::clock::complete_before;
use crate::http::Client;

/// The cause of the end of a connection.
#[derive(Debug)]
pub(super) enum CloseCause {
    /// The peer sent a close frame or left.
    Peer(CloseEvent),
    /// This side closes it. `reads` is whether further frames of the peer can be read and discarded.
    Close { code: u16, reason: String, reads: bool },
    /// The peer neither reads nor answers, so a close frame is pointless.
    Lost(&'static str),
}

impl CloseCause {
    pub(super) fn close(code: u16, reason: impl Into<String>) -> Self {
        CloseCause::Close { code, reason: reason.into(), reads: true }
    }

    /// Like `close`, for a socket that cannot read on.
    pub(super) fn close_without_reading(code: u16, reason: impl Into<String>) -> Self {
        CloseCause::Close { code, reason: reason.into(), reads: false }
    }

    pub(super) fn disconnected() -> Self {
        CloseCause::Peer(CloseEvent { code: 1006, reason: String::new() })
    }
}

/// Serves a connection until it ends.
pub(super) async fn serve<D: ConnectionData, S>(
    router: &Router<D>,
    socket: MessageSocket<S>,
    data: D,
    client: Option<Client>,
) where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let registered = router.register(data, client);
    let connection = &registered.connection;
    let settings = &router.inner().settings;
    let (sink, mut stream) = socket.split();
    let heartbeat = Heartbeat::default();
    let mut writer = FrameWriter::new(sink, connection.queue(), &heartbeat, settings.send_timeout);
    let mut pipeline = Pipeline::new(router, connection);

    let ending = tokio::select! {
        ending = read(&mut stream, &mut pipeline, &heartbeat) => ending,
        ending = writer.run() => ending,
        ending = heartbeat.watch(settings.heartbeat) => ending,
        () = connection.queue().overflowed() => {
            CloseCause::close(close_code::POLICY, "The client does not read what it is sent")
        }
        (code, reason) = connection.close_requested() => CloseCause::close(code, reason),
    };

    connection.leave_topics();
    if !matches!(ending, CloseCause::Close { .. }) {
        // No client is left to send to or wait for.
        connection.queue().discard();
    }
    // Replies have no reader any more. Events were accepted, and run to their end.
    let connection_keys = {
        let mut ended = pin!(pipeline.end(settings.close_timeout));
        tokio::select! {
            keys = &mut ended => keys,
            // The queue drains, so that events can send.
            _ = writer.run() => ended.await,
        }
    };
    connection.queue().close();
    let closed = match ending {
        CloseCause::Peer(closed) => {
            // The socket answers a close frame by itself on its next write.
            let _ = timeout(settings.close_timeout, writer.close()).await;
            closed
        }
        CloseCause::Close { code, reason, reads } => {
            let written = timeout(settings.close_timeout, writer.write_close(code, &reason)).await;
            if matches!(written, Ok(Ok(()))) {
                // With unread bytes, the system would reset the connection before the peer reads the close frame.
                let _ = timeout(settings.close_timeout, wait_for_close(&mut stream, reads)).await;
            }
            CloseEvent { code, reason }
        }
        CloseCause::Lost(reason) => CloseEvent { code: 1006, reason: reason.to_owned() },
    };
    if let Some(on_close) = &router.inner().hooks.on_close {
        // A panic in the hook must not keep the router from removing the connection.
        let closed = async { on_close(connection.clone(), closed).await };
        let _ = AssertUnwindSafe(closed).catch_unwind().await;
    }
    // Keys that a hanging store does not reset now expire.
    let _ = timeout(settings.close_timeout, connection_keys.forget()).await;
}

/// Rejects a connection that is open already.
pub(super) async fn reject<D: ConnectionData, S>(router: &Router<D>, mut socket: MessageSocket<S>, error: &MessageError)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let rejected = async {
        let message = wire::write_error(None, error, router.inner().clock.now());
        socket.feed(OutboundFrame::Text(message.into())).await?;
        socket.send(OutboundFrame::close(close_code::POLICY, error.message())).await?;
        wait_for_close(&mut socket, true).await;
        Ok::<_, SocketError>(())
    };
    // The peer may no longer read.
    let _ = timeout(router.inner().settings.close_timeout, rejected).await;
}

/// Reads frames until the connection must close.
async fn read<D: ConnectionData>(
    stream: &mut (impl Stream<Item = Result<InboundFrame, SocketError>> + Unpin),
    pipeline: &mut Pipeline<'_, D>,
    heartbeat: &Heartbeat,
) -> CloseCause {
    if let Err(ending) = pipeline.open().await {
        return ending;
    }
    loop {
        // A client that does not read must not cause more work.
        pipeline.wait_for_room().await;
        heartbeat.start_reading();
        let received = stream.next().await;
        heartbeat.record_activity();
        let taken = match received {
            None | Some(Err(SocketError::Disconnected)) => Err(CloseCause::disconnected()),
            Some(Err(error)) => pipeline.socket_error(error),
            Some(Ok(InboundFrame::Text(text))) => pipeline.message(&text).await,
            Some(Ok(InboundFrame::Binary(bytes))) => pipeline.binary(bytes),
            Some(Ok(InboundFrame::Ping)) => pipeline.ping(),
            Some(Ok(InboundFrame::Pong)) if heartbeat.is_expected_pong() => Ok(()),
            Some(Ok(InboundFrame::Pong)) => pipeline.control_frame(),
            Some(Ok(InboundFrame::Close(frame))) => {
                let (code, reason) = frame.unwrap_or((1005, String::new()));
                Err(CloseCause::Peer(CloseEvent { code, reason }))
            }
        };
        if let Err(ending) = taken {
            return ending;
        }
    }
}

/// Waits for the peer's close frame. A socket that cannot read on only gives the peer time to read ours.
async fn wait_for_close(stream: &mut (impl Stream<Item = Result<InboundFrame, SocketError>> + Unpin), reads: bool) {
    if !reads {
        return pending().await;
    }
    while let Some(Ok(received)) = stream.next().await {
        if matches!(received, InboundFrame::Close(_)) {
            return;
        }
    }
}

/// Sends queued messages, and pings when they are due.
struct FrameWriter<'a, S> {
    sink: S,
    queue: &'a SendQueue,
    heartbeat: &'a Heartbeat,
    send_timeout: Duration,
    /// Popped, but not in the socket yet: a cancelled write resumes with it.
    next: Option<Bytes>,
}

impl<'a, S: Sink<OutboundFrame, Error = SocketError> + Unpin> FrameWriter<'a, S> {
    fn new(sink: S, queue: &'a SendQueue, heartbeat: &'a Heartbeat, send_timeout: Duration) -> Self {
        FrameWriter { sink, queue, heartbeat, send_timeout, next: None }
    }

    /// Writes until the connection must close.
    async fn run(&mut self) -> CloseCause {
        loop {
            // A peer that does not read costs only its own connection.
            match timeout(self.send_timeout, self.write_next()).await {
                Ok(Ok(true)) => {}
                Ok(Ok(false)) => tokio::select! {
                    () = self.queue.wait_for_messages() => {}
                    () = self.heartbeat.wait_for_ping() => {}
                },
                Ok(Err(_)) => return CloseCause::disconnected(),
                Err(_) => return CloseCause::Lost("the peer does not read"),
            }
        }
    }

    /// Sends a due ping and one message. Returns whether there was a message.
    async fn write_next(&mut self) -> Result<bool, SocketError> {
        if self.heartbeat.take_due_ping() {
            self.sink.send(OutboundFrame::Ping).await?;
            self.heartbeat.record_ping();
        }
        self.write_message().await
    }

    /// Sends one message, or flushes when there is none. Returns whether there was one.
    async fn write_message(&mut self) -> Result<bool, SocketError> {
        if self.next.is_none() {
            match self.queue.pop() {
                Dequeued::Message(message) => self.next = Some(message),
                Dequeued::Empty | Dequeued::End => {
                    self.sink.flush().await?;
                    return Ok(false);
                }
            }
        }
        poll_fn(|context| self.sink.poll_ready_unpin(context)).await?;
        if let Some(message) = self.next.take() {
            self.sink.start_send_unpin(OutboundFrame::Text(message))?;
        }
        Ok(true)
    }

    /// Sends the queued messages and a close frame.
    async fn write_close(&mut self, code: u16, reason: &str) -> Result<(), SocketError> {
        while self.write_message().await? {}
        self.sink.send(OutboundFrame::close(code, reason)).await
    }

    /// Flushes what the socket itself has queued.
    async fn close(&mut self) -> Result<(), SocketError> {
        self.sink.close().await
    }
}

/// Liveness of the peer, by pings.
#[derive(Default)]
struct Heartbeat {
    /// The number of frames from the peer.
    activity_count: AtomicU64,
    activity: Notify,
    /// Whether the session reads: a peer that is not read is not silent.
    is_reading: AtomicBool,
    /// Whether a ping must be sent.
    ping_due: AtomicBool,
    ping_requested: Notify,
    ping_sent: Notify,
    /// Pings without a pong so far.
    pending_pongs: AtomicU64,
}

impl Heartbeat {
    /// Silence counts from now on.
    fn start_reading(&self) {
        self.record_activity();
        self.is_reading.store(true, Ordering::Relaxed);
    }

    /// Records a frame. Silence does not count until the session reads on.
    fn record_activity(&self) {
        self.is_reading.store(false, Ordering::Relaxed);
        self.activity_count.fetch_add(1, Ordering::Relaxed);
        self.activity.notify_waiters();
    }

    /// Returns whether a pong answers one of our pings.
    fn is_expected_pong(&self) -> bool {
        self.pending_pongs
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |pending_pongs| pending_pongs.checked_sub(1))
            .is_ok()
    }

    /// Returns whether a ping must be sent now.
    fn take_due_ping(&self) -> bool {
        self.ping_due.swap(false, Ordering::Relaxed)
    }

    /// Waits until a ping may be due.
    async fn wait_for_ping(&self) {
        self.ping_requested.notified().await;
    }

    /// Records a sent ping.
    fn record_ping(&self) {
        self.pending_pongs.fetch_add(1, Ordering::Relaxed);
        self.ping_sent.notify_one();
    }

    /// Pings the peer, and returns when it does not answer.
    async fn watch(&self, heartbeat: Option<HeartbeatSettings>) -> CloseCause {
        let Some(HeartbeatSettings { interval, timeout }) = heartbeat else { return pending().await };
        loop {
            sleep(interval).await;
            self.ping_due.store(true, Ordering::Relaxed);
            self.ping_requested.notify_one();
            // The timeout begins when the ping is sent. The writer handles a peer that does not read.
            let activity_count = self.activity_count.load(Ordering::Relaxed);
            self.ping_sent.notified().await;
            let answered = complete_before(sleep(timeout), self.activity_after(activity_count)).await.is_some();
            if !answered && self.is_reading.load(Ordering::Relaxed) {
                return CloseCause::Lost("the peer does not answer");
            }
        }
    }

    /// Waits for activity after this count.
    async fn activity_after(&self, activity_count: u64) {
        let mut activity = pin!(self.activity.notified());
        // Registered before checking, so that no notification is missed.
        activity.as_mut().enable();
        if self.activity_count.load(Ordering::Relaxed) == activity_count {
            activity.await;
        }
    }
}
