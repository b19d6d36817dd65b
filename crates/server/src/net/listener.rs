//! Listeners: open the ports and accept a bounded number of connections, with TLS or without.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use metrics::{Gauge, describe_gauge, gauge};
use socket2::{SockRef, TcpKeepalive};
use tidegate::resilience::with_caller;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tracing::{debug, warn};

use super::buffer_budget::{BufferAccount, BufferBudget, CONNECTION_BYTES, TLS_BYTES};
use super::shutdown::Shutdown;
use super::tls::TlsAcceptors;
use crate::Failure;
use crate::cli::{Listen, Serve};
use crate::log_throttle::LogThrottle;

/// How long a TLS handshake may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a TLS handshake may take once the server ends: its client probably has a request.
const LATE_HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(1);

/// How long a client may be silent before TCP keep-alive probes it: one that has vanished must not keep its connection for
/// ever.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// How often it is logged that no connection can be accepted.
const ACCEPT_LOG_PERIOD: Duration = Duration::from_secs(1);

/// Numbers the connections of all ports, which take turns at the store.
static CALLERS: AtomicU64 = AtomicU64::new(0);

/// The gauge of open connections.
const CONNECTIONS: &str = "tidegate_connections";

/// A port that accepts connections.
pub(crate) struct Listener {
    /// The name of the port in logs and metrics.
    pub(crate) name: &'static str,
    pub(crate) socket: TcpListener,
    pub(crate) tls: Option<TlsAcceptor>,
    /// The most connections served at once; further ones wait to be accepted.
    pub(crate) max_connections: u32,
    /// The bytes that connections may hold.
    pub(crate) buffers: Arc<BufferBudget>,
}

impl Listener {
    /// Serves every connection with `serve` until the shutdown, and waits for those that are open then. A connection that the budget
    /// has no room for is closed.
    pub(crate) async fn run<S, F>(self, mut shutdown: Shutdown, serve: S)
    where
        S: Fn(Stream, SocketAddr, Arc<BufferAccount>) -> F + Clone + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let permits = Arc::new(Semaphore::new(self.max_connections as usize));
        let (mut connections, throttle) = (JoinSet::new(), LogThrottle::new(ACCEPT_LOG_PERIOD));
        describe_gauge!(CONNECTIONS, "Open connections, by port.");
        let open = gauge!(CONNECTIONS, "port" => self.name);
        open.set(0.0);
        loop {
            while connections.try_join_next().is_some() {}
            let accepted = tokio::select! {
                () = shutdown.wait() => break,
                accepted = accept(&self.socket, &permits) => accepted,
            };
            let (stream, peer, permit) = match accepted {
                Ok(accepted) => accepted,
                // The client has left, which says nothing about the next one.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
                Err(error) => {
                    if let Some(left_out) = throttle.admit() {
                        let advice = accept_advice(&error);
                        warn!(port = self.name, %error, left_out, advice, "a connection cannot be accepted");
                    }
                    // Nearly always too many open files, which only passes with time.
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            let bytes = CONNECTION_BYTES + if self.tls.is_some() { TLS_BYTES } else { 0 };
            let Some(account) = self.buffers.connect(bytes) else { continue };
            let (tls, serve, name) = (self.tls.clone(), serve.clone(), self.name);
            let (open, mut shutdown) = (OpenConnection::count(&open), shutdown.clone());
            let caller = CALLERS.fetch_add(1, Ordering::Relaxed);
            connections.spawn(with_caller(caller, async move {
                let (_permit, _open) = (permit, open);
                let held = Arc::clone(account.account());
                let served = async move {
                    let secured = tokio::select! {
                        secured = handshake(stream, tls) => secured,
                        () = late_handshake_timeout(&mut shutdown) => return,
                    };
                    match secured {
                        Ok(stream) => serve(stream, peer, held).await,
                        Err(error) => debug!(port = name, %peer, %error, "no TLS was agreed upon"),
                    }
                };
                tokio::select! {
                    () = served => {}
                    () = account.account().evicted() => debug!(port = name, %peer, "closed to make room for others"),
                }
            }));
        }
        drop(self.socket);
        while connections.join_next().await.is_some() {}
    }
}

/// Advises what to do when no connection can be accepted; `None` for an error that says so by itself.
fn accept_advice(error: &io::Error) -> Option<&'static str> {
    // The same on every Unix.
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    match error.raw_os_error() {
        Some(EMFILE) => Some(
            "every connection is an open file: raise the limit of this process (ulimit -n), or lower --max-connections",
        ),
        Some(ENFILE) => Some("every connection is an open file: raise the limit of the system (fs.file-max)"),
        _ => None,
    }
}

/// Counts an open connection in the metrics until it is dropped.
struct OpenConnection(Gauge);

impl OpenConnection {
    fn count(open: &Gauge) -> Self {
        open.increment(1.0);
        OpenConnection(open.clone())
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}

async fn accept(
    socket: &TcpListener,
    permits: &Arc<Semaphore>,
) -> io::Result<(TcpStream, SocketAddr, tokio::sync::OwnedSemaphorePermit)> {
    let permit = Arc::clone(permits).acquire_owned().await.expect("the semaphore is never closed");
    let (stream, peer) = socket.accept().await?;
    // A connection that is closed already fails when it is read, and must not hold up the next one here.
    let _ = stream.set_nodelay(true);
    let _ = SockRef::from(&stream).set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE));
    Ok((stream, peer, permit))
}

/// Waits until unfinished TLS handshakes are given up.
async fn late_handshake_timeout(shutdown: &mut Shutdown) {
    shutdown.wait().await;
    tokio::time::sleep(LATE_HANDSHAKE_TIMEOUT).await;
}

async fn handshake(stream: TcpStream, tls: Option<TlsAcceptor>) -> io::Result<Stream> {
    match tls {
        None => Ok(Stream::Plain(stream)),
        Some(tls) => match timeout(HANDSHAKE_TIMEOUT, tls.accept(stream)).await {
            Ok(agreed) => agreed.map(|stream| Stream::Tls(Box::new(stream))),
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        },
    }
}

/// A byte stream, with TLS or without.
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

/// The listeners of the server; `None` for a port that is off.
pub(crate) struct Listeners {
    pub(crate) http: Option<Listener>,
    pub(crate) grpc: Option<Listener>,
    pub(crate) resp: Option<Listener>,
}

impl Listeners {
    /// Opens all ports, once each of them is known to be allowed. The threads of `grpc` accept gRPC connections.
    pub(crate) async fn open(
        serve: &Serve,
        has_token: bool,
        grpc: &Handle,
        buffers: &Arc<BufferBudget>,
    ) -> Result<Self, Failure> {
        check_exposure("http", serve.http, serve.insecure || has_token, "a token")?;
        let has_client_ca = serve.tls_client_ca.is_some();
        check_exposure("grpc", serve.grpc, serve.insecure || has_token || has_client_ca, "a token or --tls-client-ca")?;
        check_exposure("resp", serve.resp, serve.insecure || has_token, "a token")?;
        if [serve.http, serve.grpc, serve.resp].iter().all(|listen| *listen == Listen::Off) {
            return Err(Failure::Start(
                "every port is off: expected at least one of --http, --grpc, --resp".to_owned(),
            ));
        }
        let tls = TlsAcceptors::load(serve)?;
        let here = Handle::current();
        let open = async |name, listen, tls, threads| match listen {
            Listen::Off => Ok(None),
            Listen::At(address) => {
                let socket = bind(name, address, threads).await?;
                let (max_connections, buffers) = (serve.max_connections, Arc::clone(buffers));
                Ok::<_, Failure>(Some(Listener { name, socket, tls, max_connections, buffers }))
            }
        };
        Ok(Listeners {
            http: open("http", serve.http, tls.http, &here).await?,
            grpc: open("grpc", serve.grpc, tls.grpc, grpc).await?,
            resp: open("resp", serve.resp, tls.resp, &here).await?,
        })
    }
}

/// Refuses to listen beyond this machine without authentication, unless `--insecure` allows it.
fn check_exposure(name: &str, listen: Listen, is_allowed: bool, alternatives: &str) -> Result<(), Failure> {
    match listen {
        Listen::At(address) if !address.ip().is_loopback() && !is_allowed => Err(Failure::Start(format!(
            "--{name} {address} is open to others, and nobody would have to show who they are: set {alternatives} \
             (see `tidegate serve --help`), listen on 127.0.0.1, or say --insecure"
        ))),
        _ => Ok(()),
    }
}

async fn bind(name: &str, address: SocketAddr, threads: &Handle) -> Result<TcpListener, Failure> {
    let bound = TcpListener::bind(address).await.and_then(TcpListener::into_std);
    // The runtime that is entered here is the one that polls the socket.
    let _entered = threads.enter();
    bound.and_then(TcpListener::from_std).map_err(|error| {
        Failure::Start(format!(
            "--{name} {address} cannot be listened on: {error}. Choose another with --{name} ADDR, or off"
        ))
    })
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use rustls::server::{ResolvesServerCertUsingSni, ServerConfig};
    use tokio::io::AsyncReadExt;
    use tokio::time::Instant;

    use super::super::shutdown::ShutdownTrigger;
    use super::*;

    fn tls_acceptor() -> Option<TlsAcceptor> {
        let builder = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions().expect("versions").with_no_client_auth();
        let config = builder.with_cert_resolver(Arc::new(ResolvesServerCertUsingSni::new()));
        Some(TlsAcceptor::from(Arc::new(config)))
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_tls_client_times_out_after_ten_seconds() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let _silent = std::net::TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection");
        let (stream, _) = listener.accept().await.expect("a connection");
        let began = Instant::now();
        let left = handshake(stream, tls_acceptor()).await.err().expect("no TLS");
        assert_eq!((left.kind(), began.elapsed().as_secs()), (io::ErrorKind::TimedOut, 10));
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_tls_client_does_not_delay_the_shutdown() {
        let socket = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = socket.local_addr().expect("an address");
        let listener = Listener {
            name: "silent",
            socket,
            tls: tls_acceptor(),
            max_connections: 2,
            buffers: BufferBudget::new(usize::MAX),
        };
        let (ending, shutdown) = ShutdownTrigger::new();
        let began = Instant::now();
        let serving = tokio::spawn(listener.run(shutdown, async |_, _, _| {}));
        let mut silent = TcpStream::connect(address).await.expect("a connection");
        // A second client is accepted after the silent one. Paused time stands still while a thread blocks.
        let next = move || {
            let mut next = std::net::TcpStream::connect(address)?;
            next.write_all(b"GET / HTTP/1.1\r\n\r\n")?;
            next.read(&mut [0])
        };
        let answered = tokio::task::spawn_blocking(next).await.expect("no panic");
        assert!(answered.is_ok(), "{answered:?}");
        ending.trigger();
        serving.await.expect("it ends");
        assert_eq!(began.elapsed().as_secs(), 1);
        // A connection that was never accepted would be reset.
        assert_eq!(silent.read(&mut [0]).await.expect("an end"), 0);
    }
}
