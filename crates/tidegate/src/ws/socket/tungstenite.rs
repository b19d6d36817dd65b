//! Sockets of tokio-tungstenite.

use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::{Sink, SinkExt, Stream, StreamExt};
use http::Request;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::tungstenite::error::{CapacityError, Error as Failed};
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request as Opening, Response};
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};
use tokio_tungstenite::{WebSocketStream, accept_hdr_async_with_config};

use super::super::serve::{refuse, serve};
use super::super::{Data, Router};
use super::{BUFFER, Broken, Received, Sent, Socket};
use crate::clock::before;
use crate::http::Client;

impl<D: Data> Router<D> {
    /// Opens a WebSocket on a connection that was accepted, finds out who it is, and serves it until it ends. `peer` is the
    /// address at its other end.
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
    pub async fn accept<S>(&self, stream: S, peer: Option<IpAddr>)
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
        let limit = settings.socket_limit();
        let config = WebSocketConfig::default().max_message_size(Some(limit)).max_frame_size(Some(limit));
        let config = config.read_buffer_size(BUFFER).write_buffer_size(BUFFER);
        let accepted = accept_hdr_async_with_config(stream, callback, Some(config));
        let late = tokio::time::sleep(settings.handshake_timeout);
        // Who does not get through the handshake has said nothing that anybody could answer.
        let Some(Ok(socket)) = before(late, accepted).await else { return };
        let request: Request<()> = opening.expect("a handshake has a request");
        match self.authenticate(request, peer).await {
            Ok((data, client)) => self.serve_tungstenite(socket, data, client).await,
            Err(error) => refuse(self, Tungstenite(socket), &error).await,
        }
    }

    /// Serves a WebSocket of tokio-tungstenite that somebody else has opened and knows, until it ends. How long a message
    /// the socket itself takes was said by whoever opened it.
    pub async fn serve_tungstenite<S>(&self, socket: WebSocketStream<S>, data: D, client: Option<Client>)
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        serve(self, Tungstenite(socket), data, client).await;
    }
}

struct Tungstenite<S>(WebSocketStream<S>);

impl<S> Socket for Tungstenite<S>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    type Text = Utf8Bytes;
}

impl<S: AsyncRead + AsyncWrite + Unpin> Stream for Tungstenite<S> {
    type Item = Result<Received<Utf8Bytes>, Broken>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            let received = match ready!(self.0.poll_next_unpin(context)) {
                None => return Poll::Ready(None),
                Some(Err(error)) => return Poll::Ready(Some(Err(broken(&error)))),
                Some(Ok(Message::Text(text))) => Received::Text(text),
                Some(Ok(Message::Binary(bytes))) => Received::Binary(bytes.len()),
                Some(Ok(Message::Ping(_))) => Received::Ping,
                Some(Ok(Message::Pong(_))) => Received::Pong,
                Some(Ok(Message::Close(frame))) => {
                    Received::Close(frame.map(|frame| (frame.code.into(), frame.reason.as_str().to_owned())))
                }
                // Never read.
                Some(Ok(Message::Frame(_))) => continue,
            };
            return Poll::Ready(Some(Ok(received)));
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Sink<Sent> for Tungstenite<S> {
    type Error = Broken;

    fn poll_ready(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        self.0.poll_ready_unpin(context).map_err(|error| broken(&error))
    }

    fn start_send(mut self: Pin<&mut Self>, sent: Sent) -> Result<(), Broken> {
        let message = match sent {
            Sent::Text(text) => Message::Text(text.try_into().map_err(|_| Broken::NotText)?),
            Sent::Ping => Message::Ping(Bytes::new()),
            Sent::Close(code, reason) => Message::Close(Some(CloseFrame { code: code.into(), reason: reason.into() })),
        };
        self.0.start_send_unpin(message).map_err(|error| broken(&error))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        self.0.poll_flush_unpin(context).map_err(|error| broken(&error))
    }

    fn poll_close(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        self.0.poll_close_unpin(context).map_err(|error| broken(&error))
    }
}

/// What an error means for the connection.
pub(super) fn broken(error: &Failed) -> Broken {
    match error {
        Failed::Capacity(CapacityError::MessageTooLong { size, .. }) => Broken::TooBig { observed: *size },
        Failed::Utf8(_) => Broken::NotText,
        Failed::Protocol(error) if !is_end(error) => Broken::Protocol,
        _ => Broken::Gone,
    }
}

/// Whether the peer has only left without a goodbye.
fn is_end(error: &tokio_tungstenite::tungstenite::error::ProtocolError) -> bool {
    use tokio_tungstenite::tungstenite::error::ProtocolError::{ResetWithoutClosingHandshake, SendAfterClosing};
    matches!(error, ResetWithoutClosingHandshake | SendAfterClosing)
}
