//! A port that is listened on, for one protocol or another: bounded, with TLS or without.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tracing::{debug, warn};

use super::shutdown::Shutdown;
use super::watch::recorder;

/// How long a client may take to agree upon TLS.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// The same once the server ends: who is in the middle of it brings a request along.
const LATE: Duration = Duration::from_secs(1);

/// How long a client may be silent before it is asked whether it is still there: one that has vanished must not keep its
/// place for ever.
const VANISHED: Duration = Duration::from_secs(60);

/// A port that is listened on.
pub(crate) struct Port {
    /// What it is for, for the log.
    pub(crate) name: &'static str,
    pub(crate) listener: TcpListener,
    pub(crate) tls: Option<TlsAcceptor>,
    /// How many connections are served at once; further ones wait to be accepted.
    pub(crate) max_connections: u32,
}

impl Port {
    /// Serves every connection by what `serve` makes of it, until it ends; then waits for those that are under way.
    pub(crate) async fn run<S, F>(self, mut shutdown: Shutdown, serve: S)
    where
        S: Fn(Stream, SocketAddr) -> F + Clone + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let permits = Arc::new(Semaphore::new(self.max_connections as usize));
        let mut connections = JoinSet::new();
        let open = recorder::connections(self.name);
        open.set(0.0);
        loop {
            while connections.try_join_next().is_some() {}
            let accepted = tokio::select! {
                () = shutdown.begun() => break,
                accepted = accept(&self.listener, &permits) => accepted,
            };
            let (stream, peer, permit) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    warn!(port = self.name, %error, "a connection cannot be accepted");
                    // Nearly always too many open files: that has to pass by itself.
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            let (tls, serve, name) = (self.tls.clone(), serve.clone(), self.name);
            let (open, mut shutdown) = (Open::count(&open), shutdown.clone());
            connections.spawn(async move {
                let (_permit, _open) = (permit, open);
                let secured = tokio::select! {
                    secured = secured(stream, tls) => secured,
                    () = too_late(&mut shutdown) => return,
                };
                match secured {
                    Ok(stream) => serve(stream, peer).await,
                    Err(error) => debug!(port = name, %peer, %error, "no TLS was agreed upon"),
                }
            });
        }
        drop(self.listener);
        while connections.join_next().await.is_some() {}
    }
}

/// A connection that is open, as metrics count them.
struct Open(metrics::Gauge);

impl Open {
    fn count(open: &metrics::Gauge) -> Self {
        open.increment(1.0);
        Open(open.clone())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}

async fn accept(
    listener: &TcpListener,
    permits: &Arc<Semaphore>,
) -> io::Result<(TcpStream, SocketAddr, tokio::sync::OwnedSemaphorePermit)> {
    let permit = Arc::clone(permits).acquire_owned().await.expect("nobody closes it");
    let (stream, peer) = listener.accept().await?;
    // One that is gone already is found out when it is read: it must not hold up those who come after it.
    let _ = stream.set_nodelay(true);
    let _ = SockRef::from(&stream).set_tcp_keepalive(&TcpKeepalive::new().with_time(VANISHED));
    Ok((stream, peer, permit))
}

/// Comes back when who has not agreed upon TLS yet is no longer waited for.
async fn too_late(shutdown: &mut Shutdown) {
    shutdown.begun().await;
    tokio::time::sleep(LATE).await;
}

async fn secured(stream: TcpStream, tls: Option<TlsAcceptor>) -> io::Result<Stream> {
    match tls {
        None => Ok(Stream::Plain(stream)),
        Some(tls) => match timeout(HANDSHAKE, tls.accept(stream)).await {
            Ok(agreed) => agreed.map(|stream| Stream::Tls(Box::new(stream))),
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        },
    }
}

/// A connection.
pub(crate) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Stream::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Stream::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_write_vectored(context, slices),
            Stream::Tls(stream) => Pin::new(stream).poll_write_vectored(context, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Stream::Plain(stream) => stream.is_write_vectored(),
            Stream::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_flush(context),
            Stream::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Stream::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use rustls::server::{ResolvesServerCertUsingSni, ServerConfig};
    use tokio::io::AsyncReadExt;
    use tokio::time::Instant;

    use super::super::shutdown::Ending;
    use super::*;

    fn speaks_tls() -> Option<TlsAcceptor> {
        let builder = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions().expect("versions").with_no_client_auth();
        let config = builder.with_cert_resolver(Arc::new(ResolvesServerCertUsingSni::new()));
        Some(TlsAcceptor::from(Arc::new(config)))
    }

    #[tokio::test(start_paused = true)]
    async fn who_says_nothing_where_tls_is_spoken_is_left_after_ten_seconds() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let _silent = std::net::TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection");
        let (stream, _) = listener.accept().await.expect("a connection");
        let began = Instant::now();
        let left = secured(stream, speaks_tls()).await.err().expect("no TLS");
        assert_eq!((left.kind(), began.elapsed().as_secs()), (io::ErrorKind::TimedOut, 10));
    }

    #[tokio::test(start_paused = true)]
    async fn who_says_nothing_where_tls_is_spoken_keeps_nobody_from_ending() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let port = Port { name: "silent", listener, tls: speaks_tls(), max_connections: 2 };
        let (ending, shutdown) = Ending::new();
        let began = Instant::now();
        let serving = tokio::spawn(port.run(shutdown, async |_, _| {}));
        let mut silent = TcpStream::connect(address).await.expect("a connection");
        // Who comes after it is answered after it was accepted. The paused time stands still while somebody blocks.
        let next = move || {
            let mut next = std::net::TcpStream::connect(address)?;
            next.write_all(b"GET / HTTP/1.1\r\n\r\n")?;
            next.read(&mut [0])
        };
        let answered = tokio::task::spawn_blocking(next).await.expect("no panic");
        assert!(answered.is_ok(), "{answered:?}");
        ending.begin();
        serving.await.expect("it ends");
        assert_eq!(began.elapsed().as_secs(), 1);
        // A connection that nobody has accepted would be reset.
        assert_eq!(silent.read(&mut [0]).await.expect("an end"), 0);
    }
}
