//! `TimeoutStream`: a byte stream with timeouts for clients that send nothing or read nothing.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::error::Elapsed;
use tokio::time::{Sleep, sleep, timeout};

/// Waits for a future within a time. One that is ready at once, as nearly all are, costs no timer.
pub(crate) async fn with_timeout<F: Future>(time: Duration, future: F) -> Result<F::Output, Elapsed> {
    let mut future = pin!(future);
    match poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await {
        Poll::Ready(output) => Ok(output),
        Poll::Pending => timeout(time, future).await,
    }
}

/// A stream with a timeout for the first bytes and for each write. The protocol has timeouts of its own for all between.
pub(crate) struct TimeoutStream<S> {
    stream: S,
    timeout_after: Duration,
    /// The timer until the protocol is known.
    start: Option<Pin<Box<Sleep>>>,
    bytes_read: usize,
    /// The timer while a write is blocked.
    blocked_write: Option<Pin<Box<Sleep>>>,
}

/// The length of the HTTP/2 preface: after as many bytes the protocol is known, and its own timeouts apply.
const PREFACE_BYTES: usize = 24;

impl<S> TimeoutStream<S> {
    pub(crate) fn new(stream: S, timeout_after: Duration) -> Self {
        TimeoutStream {
            stream,
            timeout_after,
            start: Some(Box::pin(sleep(timeout_after))),
            bytes_read: 0,
            blocked_write: None,
        }
    }

    /// Passes on the result of a write, and fails one that is blocked for too long.
    fn limit_write<T>(&mut self, context: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.blocked_write = None;
            return written;
        }
        let timeout_after = self.timeout_after;
        let blocked_write = self.blocked_write.get_or_insert_with(|| Box::pin(sleep(timeout_after)));
        ready!(blocked_write.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TimeoutStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        let Some(start) = &mut self.start else { return read };
        if read.is_pending() {
            ready!(start.as_mut().poll(context));
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        self.bytes_read += buffer.filled().len() - before;
        if self.bytes_read >= PREFACE_BYTES {
            self.start = None;
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TimeoutStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.limit_write(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.limit_write(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.limit_write(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let ended = Pin::new(&mut self.stream).poll_shutdown(context);
        self.limit_write(context, ended)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn a_slow_future_times_out_and_a_fast_one_does_not() {
        assert_eq!(with_timeout(TIMEOUT, async { 1 }).await, Ok(1));
        assert_eq!(with_timeout(TIMEOUT, sleep(TIMEOUT * 9 / 10)).await, Ok(()));
        with_timeout(TIMEOUT, sleep(TIMEOUT * 11 / 10)).await.expect_err("too long");
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_sends_too_little_times_out() {
        for sent in [&b""[..], b"P", b"PRI * HTTP/2.0\r\n"] {
            let (mut client, server) = duplex(64);
            let mut server = TimeoutStream::new(server, TIMEOUT);
            client.write_all(sent).await.expect("room");
            let mut received = Vec::new();
            let ended = server.read_to_end(&mut received).await.expect_err("nothing more comes");
            assert_eq!((ended.kind(), &received[..]), (io::ErrorKind::TimedOut, sent));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_has_started_may_be_silent() {
        let (mut client, server) = duplex(64);
        let mut server = TimeoutStream::new(server, TIMEOUT);
        client.write_all(&[b'x'; PREFACE_BYTES]).await.expect("room");
        server.read_exact(&mut [0; PREFACE_BYTES]).await.expect("they are there");
        let later = async {
            sleep(TIMEOUT * 10).await;
            client.write_all(b"y").await.expect("room");
        };
        let (_, read) = tokio::join!(later, server.read_u8());
        assert_eq!(read.expect("it waits"), b'y');
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_read_times_out_and_a_slow_one_does_not() {
        let (mut client, server) = duplex(8);
        let mut server = TimeoutStream::new(server, TIMEOUT);
        let slow = async {
            for _ in 0..4 {
                sleep(TIMEOUT * 9 / 10).await;
                client.read_exact(&mut [0; 8]).await.expect("there is more");
            }
        };
        let (_, written) = tokio::join!(slow, server.write_all(&[0; 32]));
        written.expect("it goes on");
        let ended = server.write_all(&[0; 32]).await.expect_err("nobody reads");
        assert_eq!(ended.kind(), io::ErrorKind::TimedOut);
    }
}
