//! One HTTP connection of either version, bounded in size and time.

use std::error::Error;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};

use super::buffer_budget::BufferAccount;
use super::charged_body::ChargedResponseBody;
use super::header_timeout::HeaderTimeout;
use super::inline_executor::{InlineExecutor, InlineResponses};
use super::metered_stream::MeteredStream;
use super::shutdown::Shutdown;
use super::stall_guard::note_head;
use super::timeout_stream::TimeoutStream;

/// How long a client may take to send the headers of a request or to read a write, and how long an HTTP/1 connection may be
/// idle. An HTTP/2 connection gets a keep-alive ping as often.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(30);
/// The most bytes of the head of an HTTP/1 request.
pub(super) const MAX_HEADER_BYTES: usize = 64 << 10;
/// The most bytes of the head of an HTTP/2 request. Decoded, it takes up to six times as many, and a byte can stand for a header.
const MAX_HTTP2_HEADER_BYTES: u32 = 16 << 10;
/// The most requests of one connection in flight.
const MAX_STREAMS: u32 = 200;
/// The HTTP/2 flow control windows: how much of a request, and of all requests of a connection, may be in flight.
const STREAM_WINDOW: u32 = 64 << 10;
const CONNECTION_WINDOW: u32 = 256 << 10;
/// How many malformed requests end an HTTP/2 connection. Each is kept until its reset is sent.
const MAX_MALFORMED_STREAMS: usize = 32;

/// How many rounds of up to [`MAX_STREAMS`] requests a connection is served before others have their turn.
const MAX_ROUNDS: u32 = 4;

/// Serves a connection until the client or the server ends it, and finishes requests in flight then. Its input and the end of its
/// responses are counted in its account.
pub(crate) async fn serve<S, V>(
    stream: S,
    account: &Arc<BufferAccount>,
    service: V,
    shutdown: &mut Shutdown,
) -> Result<(), Box<dyn Error + Send + Sync>>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    V: Service<Request<Incoming>, Response = Response<ChargedResponseBody>, Error = h2::Error, Future: Send + 'static>,
{
    let (mut header_timeout, mut responses) = (HeaderTimeout::new(CLIENT_TIMEOUT), InlineResponses::default());
    let builder = builder(&header_timeout, responses.executor());
    let service = service_fn(move |request: Request<Incoming>| note_head(service.call(request)));
    let stream = TimeoutStream::new(MeteredStream::new(stream, Arc::clone(account)), CLIENT_TIMEOUT);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let mut shutdown = pin!(shutdown.wait());
    let mut ending = false;
    poll_fn(|context| {
        for _ in 0..MAX_ROUNDS {
            let ended = connection.as_mut().poll(context);
            // Also if the connection has ended: its requests are decided.
            let answered = responses.poll(context);
            if ended.is_ready() {
                return ended;
            }
            if !ending && shutdown.as_mut().poll(context).is_ready() {
                connection.as_mut().graceful_shutdown();
                ending = true;
            } else if !answered && !header_timeout.has_fired(context) {
                return Poll::Pending;
            }
        }
        // A client that sends without a pause must not starve others.
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await
}

fn builder(header_timeout: &HeaderTimeout, executor: InlineExecutor) -> auto::Builder<InlineExecutor> {
    let mut builder = auto::Builder::new(executor);
    // Head and body are short: joining them costs less than a vectored write.
    builder
        .http1()
        .timer(header_timeout.timer())
        .header_read_timeout(CLIENT_TIMEOUT)
        .max_buf_size(MAX_HEADER_BYTES)
        .writev(false);
    let mut http2 = builder.http2();
    http2.timer(TokioTimer::new()).keep_alive_interval(CLIENT_TIMEOUT).max_concurrent_streams(MAX_STREAMS);
    http2.max_header_list_size(MAX_HTTP2_HEADER_BYTES).max_send_buf_size(STREAM_WINDOW as usize);
    http2.max_local_error_reset_streams(MAX_MALFORMED_STREAMS);
    http2.initial_stream_window_size(STREAM_WINDOW).initial_connection_window_size(CONNECTION_WINDOW);
    builder
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use axum::body::Body;
    use futures_util::{StreamExt, stream};
    use http_body_util::BodyExt;
    use hyper::client::conn::http2;
    use hyper_util::rt::TokioExecutor;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::time::{Instant, sleep};

    use super::*;
    use crate::net::body::{DISCARD_TIMEOUT, ResponseBody, read_body};
    use crate::net::buffer_budget::BufferBudget;
    use crate::net::shutdown::ShutdownTrigger;
    use crate::net::stall_guard::STALL_TIMEOUT;

    const COMPLETE_REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n";

    /// Serves a connection with room for everything.
    async fn serve_with<F>(
        stream: DuplexStream,
        respond: impl Fn(Request<Incoming>) -> F,
        shutdown: &mut Shutdown,
    ) -> Result<(), String>
    where
        F: Future<Output = ResponseBody> + Send + 'static,
    {
        let open = BufferBudget::new(usize::MAX).connect(0).expect("room");
        let service = service_fn(|request| {
            let body = respond(request);
            async move { Ok::<_, h2::Error>(Response::new(ChargedResponseBody::new(body.await, None))) }
        });
        serve(stream, open.account(), service, shutdown).await.map_err(|error| error.to_string())
    }

    /// A client of a server that answers every request.
    fn connect() -> (DuplexStream, ShutdownTrigger) {
        let (client, server) = duplex(1 << 16);
        let (ending, mut shutdown) = ShutdownTrigger::new();
        tokio::spawn(async move { serve_with(server, |_| async { ResponseBody::full("well") }, &mut shutdown).await });
        (client, ending)
    }

    async fn read_response(client: &mut DuplexStream) {
        let mut heard = Vec::new();
        while !heard.ends_with(b"well") {
            assert_ne!(client.read_buf(&mut heard).await.expect("heard"), 0, "{}", String::from_utf8_lossy(&heard));
        }
    }

    /// The time from now until the server closes the connection.
    async fn time_until_closed(client: &mut DuplexStream) -> Duration {
        let began = Instant::now();
        client.read_to_end(&mut Vec::new()).await.expect("left");
        began.elapsed()
    }

    fn is_about(time: Duration, expected: Duration) -> bool {
        (expected..expected + Duration::from_millis(5)).contains(&time)
    }

    #[tokio::test(start_paused = true)]
    async fn incomplete_headers_time_out() {
        let (mut client, _ending) = connect();
        client.write_all(&COMPLETE_REQUEST[..25]).await.expect("room");
        let left = time_until_closed(&mut client).await;
        assert!(is_about(left, CLIENT_TIMEOUT), "{left:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn trickling_headers_get_no_more_time() {
        let (mut client, _ending) = connect();
        let began = Instant::now();
        client.write_all(COMPLETE_REQUEST).await.expect("room");
        read_response(&mut client).await;
        let mut sent = 0;
        while sent < 8 && client.write_all(&COMPLETE_REQUEST[sent..=sent]).await.is_ok() {
            sleep(CLIENT_TIMEOUT / 5).await;
            sent += 1;
        }
        let left = began.elapsed();
        assert!(left < CLIENT_TIMEOUT * 7 / 5, "{left:?}, {sent} sent");
    }

    #[tokio::test(start_paused = true)]
    async fn every_request_and_an_idle_connection_have_their_own_timeout() {
        let (mut client, _ending) = connect();
        for _ in 0..7 {
            client.write_all(COMPLETE_REQUEST).await.expect("room");
            read_response(&mut client).await;
            sleep(CLIENT_TIMEOUT * 9 / 10).await;
        }
        client.write_all(COMPLETE_REQUEST).await.expect("it is still there");
        read_response(&mut client).await;
        let left = time_until_closed(&mut client).await;
        assert!(is_about(left, CLIENT_TIMEOUT), "{left:?}");
    }

    /// An HTTP/2 client with a window of so many bytes for each response.
    async fn client_with_window(bytes: u32) -> impl AsyncFnMut(&str) -> Incoming {
        let (client, server) = duplex(1 << 16);
        let respond = |request: Request<Incoming>| async move {
            match request.uri().path() {
                "/large" => ResponseBody::full(vec![b'x'; 1 << 17]),
                "/large/routed" => ResponseBody::routed(vec![b'x'; 1 << 17].into()),
                "/late" => {
                    sleep(STALL_TIMEOUT * 10).await;
                    ResponseBody::full("x")
                }
                _ => ResponseBody::routed(Body::from_stream(stream::once(async {
                    sleep(STALL_TIMEOUT * 10).await;
                    Ok::<_, Infallible>("x")
                }))),
            }
        };
        tokio::spawn(async move {
            let (_ending, mut shutdown) = ShutdownTrigger::new();
            serve_with(server, respond, &mut shutdown).await
        });
        let mut builder = http2::Builder::new(TokioExecutor::new());
        let handshake = builder.initial_stream_window_size(bytes).handshake(TokioIo::new(client));
        let (mut client, connection) = handshake.await.expect("HTTP/2");
        tokio::spawn(connection);
        async move |path: &str| {
            let request = Request::get(format!("http://x{path}")).body(String::new()).expect("a request");
            client.send_request(request).await.expect("a head").into_body()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_response_that_the_client_does_not_read_is_dropped() {
        for room in [0, 1] {
            let mut ask = client_with_window(room).await;
            for path in ["/large", "/large/routed"] {
                let answer = ask(path).await;
                // Reading would extend the window.
                sleep(STALL_TIMEOUT + Duration::from_millis(5)).await;
                assert!(answer.collect().await.is_err());
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_response_is_not_a_stalled_client() {
        let mut ask = client_with_window(1).await;
        for path in ["/late", "/late/routed"] {
            let answer = ask(path).await.collect().await.expect("all of it");
            assert_eq!(answer.to_bytes(), "x");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_reader_gets_the_whole_response() {
        let mut ask = client_with_window(16 << 10).await;
        for path in ["/large", "/large/routed"] {
            let (mut answer, mut received, began) = (ask(path).await, 0, Instant::now());
            while let Some(frame) = answer.frame().await {
                received += frame.expect("a piece").data_ref().expect("bytes").len();
                sleep(STALL_TIMEOUT / 2).await;
            }
            assert_eq!(received, 1 << 17);
            assert!(began.elapsed() > STALL_TIMEOUT * 3);
        }
    }

    /// A client of a server that reads bodies of up to 64 bytes and refuses larger ones.
    fn connect_to_refusing_server() -> DuplexStream {
        let (client, server) = duplex(1 << 16);
        let respond = |request: Request<Incoming>| async move {
            let is_refused = read_body(request.into_body(), 64).await.is_err();
            ResponseBody::full(if is_refused { "refused" } else { "well" })
        };
        tokio::spawn(async move {
            let (_ending, mut shutdown) = ShutdownTrigger::new();
            serve_with(server, respond, &mut shutdown).await
        });
        client
    }

    #[tokio::test(start_paused = true)]
    async fn announced_body_that_is_too_large_is_refused_without_100_continue() {
        let mut client = connect_to_refusing_server();
        let head = b"POST / HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 65\r\n\r\n";
        client.write_all(head).await.expect("room");
        let mut heard = Vec::new();
        while !heard.ends_with(b"refused") {
            assert_ne!(client.read_buf(&mut heard).await.expect("heard"), 0, "{}", heard.escape_ascii());
        }
        assert!(heard.starts_with(b"HTTP/1.1 200"), "{}", heard.escape_ascii());
        // The body may still come, and the connection does not wait for it for ever.
        let left = time_until_closed(&mut client).await;
        assert!(left <= DISCARD_TIMEOUT + Duration::from_millis(5), "{left:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn client_that_sends_a_refused_body_first_reads_the_refusal() {
        let mut client = connect_to_refusing_server();
        let body = vec![b'x'; 4 << 20];
        let head = format!("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", body.len());
        client.write_all(&[head.as_bytes(), &body].concat()).await.expect("all of it is taken");
        let mut heard = Vec::new();
        while !heard.ends_with(b"refused") {
            assert_ne!(client.read_buf(&mut heard).await.expect("heard"), 0, "{}", heard.escape_ascii());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn http2_client_can_send_a_refused_body_to_its_end() {
        let connection = http2::handshake(TokioExecutor::new(), TokioIo::new(connect_to_refusing_server())).await;
        let (mut client, connection) = connection.expect("HTTP/2");
        tokio::spawn(connection);
        let (sent, all_sent) = tokio::sync::oneshot::channel();
        let pieces = stream::iter(std::iter::repeat_n(Ok::<_, Infallible>(vec![b'x'; 16 << 10]), 256));
        let body = Body::from_stream(pieces.chain(stream::once(async {
            sent.send(()).expect("it is waited for");
            Ok(Vec::new())
        })));
        let request = Request::post("http://x/").body(body).expect("a request");
        let answer = client.send_request(request).await.expect("an answer").into_body().collect().await;
        assert_eq!(answer.expect("all of it").to_bytes(), "refused");
        all_sent.await.expect("the stream is not reset");
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_connection_closes_at_once_on_shutdown() {
        let (mut client, ending) = connect();
        client.write_all(COMPLETE_REQUEST).await.expect("room");
        read_response(&mut client).await;
        ending.trigger();
        let left = time_until_closed(&mut client).await;
        assert!(is_about(left, Duration::ZERO), "{left:?}");
    }
}
