//! A connection on which nobody is waited for too long.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::error::Elapsed;
use tokio::time::{Sleep, sleep, timeout};

/// The same, within this time. What is ready at once, as nearly everything is, costs no look at the clock.
pub(crate) async fn within<F: Future>(time: Duration, future: F) -> Result<F::Output, Elapsed> {
    let mut future = pin!(future);
    match poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await {
        Poll::Ready(output) => Ok(output),
        Poll::Pending => timeout(time, future).await,
    }
}

/// A connection whose first bytes have to come in time, and whose answers have to be read in time. What is between is the
/// protocol's to watch.
pub(crate) struct Patient<S> {
    stream: S,
    patience: Duration,
    /// Until it is known what is spoken.
    begins: Option<Pin<Box<Sleep>>>,
    seen: usize,
    /// While nothing can be written.
    stuck: Option<Pin<Box<Sleep>>>,
}

/// After as many bytes it is known whether HTTP/2 is spoken, and with it who watches from there on.
const KNOWN: usize = 24;

impl<S> Patient<S> {
    pub(crate) fn new(stream: S, patience: Duration) -> Self {
        Patient { stream, patience, begins: Some(Box::pin(sleep(patience))), seen: 0, stuck: None }
    }

    /// What became of a write: one that has to wait may do so for a while only.
    fn written<T>(&mut self, context: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stuck = None;
            return written;
        }
        let patience = self.patience;
        let stuck = self.stuck.get_or_insert_with(|| Box::pin(sleep(patience)));
        ready!(stuck.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        let Some(begins) = &mut self.begins else { return read };
        if read.is_pending() {
            ready!(begins.as_mut().poll(context));
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        self.seen += buffer.filled().len() - before;
        if self.seen >= KNOWN {
            self.begins = None;
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.written(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.written(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.written(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let ended = Pin::new(&mut self.stream).poll_shutdown(context);
        self.written(context, ended)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn what_is_waited_for_has_its_time_and_no_more() {
        assert_eq!(within(PATIENCE, async { 1 }).await, Ok(1));
        assert_eq!(within(PATIENCE, sleep(PATIENCE * 9 / 10)).await, Ok(()));
        within(PATIENCE, sleep(PATIENCE * 11 / 10)).await.expect_err("too long");
    }

    #[tokio::test(start_paused = true)]
    async fn who_says_too_little_is_left() {
        for said in [&b""[..], b"P", b"PRI * HTTP/2.0\r\n"] {
            let (mut client, server) = duplex(64);
            let mut server = Patient::new(server, PATIENCE);
            client.write_all(said).await.expect("room");
            let mut heard = Vec::new();
            let ended = server.read_to_end(&mut heard).await.expect_err("nothing more comes");
            assert_eq!((ended.kind(), &heard[..]), (io::ErrorKind::TimedOut, said));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_begun_may_be_silent() {
        let (mut client, server) = duplex(64);
        let mut server = Patient::new(server, PATIENCE);
        client.write_all(&[b'x'; KNOWN]).await.expect("room");
        server.read_exact(&mut [0; KNOWN]).await.expect("they are there");
        let later = async {
            sleep(PATIENCE * 10).await;
            client.write_all(b"y").await.expect("room");
        };
        let (_, read) = tokio::join!(later, server.read_u8());
        assert_eq!(read.expect("it waits"), b'y');
    }

    #[tokio::test(start_paused = true)]
    async fn who_does_not_read_is_left_and_who_is_slow_is_not() {
        let (mut client, server) = duplex(8);
        let mut server = Patient::new(server, PATIENCE);
        let slow = async {
            for _ in 0..4 {
                sleep(PATIENCE * 9 / 10).await;
                client.read_exact(&mut [0; 8]).await.expect("there is more");
            }
        };
        let (_, written) = tokio::join!(slow, server.write_all(&[0; 32]));
        written.expect("it goes on");
        let ended = server.write_all(&[0; 32]).await.expect_err("nobody reads");
        assert_eq!(ended.kind(), io::ErrorKind::TimedOut);
    }
}
