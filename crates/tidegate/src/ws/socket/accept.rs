//! Sockets on connections that the program has accepted itself.

use std::io;
use std::net::IpAddr;

use http::Request;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request as Opening, Response};
use tokio_tungstenite::{WebSocketStream, accept_hdr_async_with_config};

use super::super::serve::{refuse, serve};
use super::super::{Data, Router};
use super::allowance::Allowance;
use super::{Socket, config};
use crate::clock::before;
use crate::http::Client;

impl<D: Data> Router<D> {
    /// Opens a WebSocket on a connection that was accepted, finds out who it is, and serves it until it ends. `peer` is the
    /// address at its other end. An error when no WebSocket could be opened.
    ///
    /// Who is not let in has been answered 101 by then, so the connection is closed with 1008.
    ///
    /// ```no_run
    /// use tidegate::ws::Router;
    ///
    /// # async fn example(router: Router<()>) -> std::io::Result<()> {
    /// let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
    /// loop {
    ///     let (stream, peer) = listener.accept().await?;
    ///     let router = router.clone();
    ///     tokio::spawn(async move { router.accept(stream, Some(peer.ip())).await });
    /// }
    /// # }
    /// ```
    pub async fn accept<S>(&self, stream: S, peer: Option<IpAddr>) -> io::Result<()>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let settings = &self.inner().settings;
        let mut opening = None;
        #[expect(clippy::result_large_err, reason = "the callback's type is given")]
        let callback = |request: &Opening, response: Response| -> Result<Response, ErrorResponse> {
            opening = Some(request.clone());
            Ok(response)
        };
        let longest = settings.socket_limit();
        let (allowance, stream) = Allowance::of(stream, longest);
        let accepted = accept_hdr_async_with_config(stream, callback, Some(config(longest)));
        let late = tokio::time::sleep(settings.handshake_timeout);
        let accepted = before(late, accepted).await.ok_or(io::ErrorKind::TimedOut)?;
        let socket = Socket { stream: accepted.map_err(io::Error::other)?, allowance: Some(allowance) };
        let request: Request<()> = opening.expect("a handshake has a request");
        match self.authenticate(request, peer).await {
            Ok((data, client)) => serve(self, socket, data, client).await,
            Err(error) => refuse(self, socket, &error).await,
        }
        Ok(())
    }

    /// Serves a WebSocket that somebody else has opened and knows, until it ends. How long a message the socket itself takes
    /// was said by whoever opened it, and a message in fragments that never ends is read for as long as it comes.
    pub async fn serve<S>(&self, socket: WebSocketStream<S>, data: D, client: Option<Client>)
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        serve(self, Socket { stream: socket, allowance: None }, data, client).await;
    }
}
