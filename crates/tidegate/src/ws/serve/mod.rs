//! The life of a connection: one task that reads, decides and writes, one for its events, and one for each call.

mod calls;
mod heartbeat;
mod noise;
mod pipeline;
mod work;
mod writer;

use std::panic::AssertUnwindSafe;
use std::pin::pin;

use futures_util::{FutureExt, SinkExt, Stream, StreamExt};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;

use self::heartbeat::Pulse;
use self::pipeline::Pipeline;
use self::writer::Writer;
use super::socket::{Broken, Received, Sent, Socket};
use super::{Closed, Data, Error, Router, close, wire};
use crate::http::Client;

/// Why a connection ends.
#[derive(Debug)]
enum Ending {
    /// The peer has said goodbye, or has gone.
    Peer(Closed),
    /// This side closes it. `reads` is whether what the peer still sends can be read past.
    Close { code: u16, reason: String, reads: bool },
    /// The peer neither reads nor answers, so that there is nobody to say goodbye to.
    Lost(&'static str),
}

impl Ending {
    fn close(code: u16, reason: impl Into<String>) -> Self {
        Ending::Close { code, reason: reason.into(), reads: true }
    }

    /// The same, for a socket that does not read on.
    fn close_unread(code: u16, reason: impl Into<String>) -> Self {
        Ending::Close { code, reason: reason.into(), reads: false }
    }

    fn gone() -> Self {
        Ending::Peer(Closed { code: 1006, reason: String::new() })
    }
}

/// Serves a connection until it ends.
pub(super) async fn serve<D: Data, S>(router: &Router<D>, socket: Socket<S>, data: D, client: Option<Client>)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let entered = router.enter(data, client);
    let connection = &entered.connection;
    let settings = &router.inner().settings;
    let (sink, mut stream) = socket.split();
    let pulse = Pulse::default();
    let mut writer = Writer::new(sink, connection.queue(), &pulse, settings.send_timeout);
    let mut pipeline = Pipeline::new(router, connection);

    let ending = tokio::select! {
        ending = read(&mut stream, &mut pipeline, &pulse) => ending,
        ending = writer.run() => ending,
        ending = pulse.watch(settings.heartbeat) => ending,
        () = connection.queue().overflown() => Ending::close(close::POLICY, "The client does not read what it is sent"),
        (code, reason) = connection.asked_to_close() => Ending::close(code, reason),
    };

    connection.leave_topics();
    if !matches!(ending, Ending::Close { .. }) {
        // Nobody is there any more to send to, or to wait for.
        connection.queue().abandon();
    }
    // Nobody waits for the answers to calls. Events were received, and are worked on to their end.
    let used = {
        let mut ended = pin!(pipeline.end(settings.close_timeout));
        tokio::select! {
            used = &mut ended => used,
            // They find room for what they send.
            _ = writer.run() => ended.await,
        }
    };
    connection.queue().close();
    let closed = match ending {
        Ending::Peer(closed) => {
            // The socket answers a goodbye by itself, when it gets to write.
            let _ = timeout(settings.close_timeout, writer.close()).await;
            closed
        }
        Ending::Close { code, reason, reads } => {
            let said = timeout(settings.close_timeout, writer.say_goodbye(code, &reason)).await;
            if matches!(said, Ok(Ok(()))) {
                // With something unread, the system would cut the peer off before it has read the goodbye.
                let _ = timeout(settings.close_timeout, goodbye(&mut stream, reads)).await;
            }
            Closed { code, reason }
        }
        Ending::Lost(reason) => Closed { code: 1006, reason: reason.to_owned() },
    };
    if let Some(on_close) = &router.inner().hooks.on_close {
        // A panic in it must not keep the router from forgetting the connection.
        let told = async { on_close(connection.clone(), closed).await };
        let _ = AssertUnwindSafe(told).catch_unwind().await;
    }
    // What a store that hangs does not forget now, it forgets in time.
    let _ = timeout(settings.close_timeout, used.forget()).await;
}

/// Turns away a connection that is open already.
pub(super) async fn refuse<D: Data, S>(router: &Router<D>, mut socket: Socket<S>, error: &Error)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let refused = async {
        let message = wire::write_error(None, error, router.inner().clock.now());
        socket.feed(Sent::Text(message.into())).await?;
        socket.send(Sent::close(close::POLICY, error.message())).await?;
        goodbye(&mut socket, true).await;
        Ok::<_, Broken>(())
    };
    // Whether it was heard or not.
    let _ = timeout(router.inner().settings.close_timeout, refused).await;
}

/// Reads until there is a reason to end.
async fn read<D: Data>(
    stream: &mut (impl Stream<Item = Result<Received, Broken>> + Unpin),
    pipeline: &mut Pipeline<'_, D>,
    pulse: &Pulse,
) -> Ending {
    if let Err(ending) = pipeline.open().await {
        return ending;
    }
    loop {
        // A client that is behind with reading is not asked for more.
        pipeline.eased().await;
        pulse.reads();
        let received = stream.next().await;
        pulse.heard();
        let taken = match received {
            None | Some(Err(Broken::Gone)) => Err(Ending::gone()),
            Some(Err(broken)) => pipeline.broken(broken),
            Some(Ok(Received::Text(text))) => pipeline.message(&text).await,
            Some(Ok(Received::Binary(bytes))) => pipeline.binary(bytes),
            Some(Ok(Received::Ping)) => pipeline.ping(),
            Some(Ok(Received::Pong)) if pulse.is_answer() => Ok(()),
            Some(Ok(Received::Pong)) => pipeline.control(),
            Some(Ok(Received::Close(frame))) => {
                let (code, reason) = frame.unwrap_or((1005, String::new()));
                Err(Ending::Peer(Closed { code, reason }))
            }
        };
        if let Err(ending) = taken {
            return ending;
        }
    }
}

/// Waits for the peer's goodbye. Where what it sends cannot be read past, only time is given to read ours.
async fn goodbye(stream: &mut (impl Stream<Item = Result<Received, Broken>> + Unpin), reads: bool) {
    if !reads {
        return std::future::pending().await;
    }
    while let Some(Ok(received)) = stream.next().await {
        if matches!(received, Received::Close(_)) {
            return;
        }
    }
}
