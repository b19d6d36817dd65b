//! One HTTP connection, of either version: bounded in size and in time.

use std::convert::Infallible;
use std::error::Error;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};

use super::answer::Answer;
use super::heads::Heads;
use super::in_place::InPlace;
use super::patient::Patient;
use super::sending::noted;
use super::shutdown::Shutdown;

/// How long a client may take to send the head of a request, or to read what it is sent, and how long a connection of HTTP/1
/// may lie idle; one of HTTP/2 is asked so often whether it is still there.
const HEAD: Duration = Duration::from_secs(30);
/// How much of a head is read.
const HEAD_BYTES: usize = 64 << 10;
/// How many requests of one connection are under way at once.
const STREAMS: u32 = 200;
/// How much of a request, and of all requests of a connection, may be on its way here.
const STREAM_WINDOW: u32 = 64 << 10;
const CONNECTION_WINDOW: u32 = 1 << 20;

/// How often what was asked is answered, up to [`STREAMS`] at a time, before other connections have their turn.
const ROUNDS: u32 = 4;

/// Answers what is asked on a connection by `service` until it ends, and what is under way then.
pub(crate) async fn serve<S, V>(
    stream: S,
    service: V,
    shutdown: &mut Shutdown,
) -> Result<(), Box<dyn Error + Send + Sync>>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    V: Service<Request<Incoming>, Response = Response<Answer>, Error = Infallible, Future: Send + 'static>,
{
    let (mut heads, answers) = (Heads::new(HEAD), InPlace::default());
    let builder = builder(&heads, &answers);
    let service = service_fn(move |request: Request<Incoming>| noted(service.call(request)));
    let mut connection = pin!(builder.serve_connection(TokioIo::new(Patient::new(stream, HEAD)), service));
    let mut shutdown = pin!(shutdown.begun());
    let mut ending = false;
    poll_fn(|context| {
        for _ in 0..ROUNDS {
            let ended = connection.as_mut().poll(context);
            // Of one that has ended, too: what was asked is decided.
            let answered = answers.answer(context);
            if ended.is_ready() {
                return ended;
            }
            if !ending && shutdown.as_mut().poll(context).is_ready() {
                connection.as_mut().graceful_shutdown();
                ending = true;
            } else if !answered && !heads.rang(context) {
                return Poll::Pending;
            }
        }
        // Others have their turn, however much somebody asks without a pause.
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await
}

fn builder(heads: &Heads, answers: &InPlace) -> auto::Builder<InPlace> {
    let mut builder = auto::Builder::new(answers.clone());
    // Head and body are short: to put them together takes less than to have two pieces written.
    builder.http1().timer(heads.timer()).header_read_timeout(HEAD).max_buf_size(HEAD_BYTES).writev(false);
    let mut http2 = builder.http2();
    http2.timer(TokioTimer::new()).keep_alive_interval(HEAD).max_concurrent_streams(STREAMS);
    http2.max_header_list_size(HEAD_BYTES as u32).max_send_buf_size(STREAM_WINDOW as usize);
    http2.initial_stream_window_size(STREAM_WINDOW).initial_connection_window_size(CONNECTION_WINDOW);
    builder
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use futures_util::stream;
    use http_body_util::BodyExt;
    use hyper::client::conn::http2;
    use hyper_util::rt::TokioExecutor;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::time::{Instant, sleep};

    use super::*;
    use crate::serve::sending::ROOM;
    use crate::serve::shutdown::Ending;

    const WHOLE: &[u8] = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n";

    /// A client of a server that answers everything.
    fn connected() -> (DuplexStream, Ending) {
        let (client, server) = duplex(1 << 16);
        let (ending, mut shutdown) = Ending::new();
        let service = service_fn(async |_| Ok(Response::new(Answer::whole("well"))));
        tokio::spawn(async move { serve(server, service, &mut shutdown).await.map_err(|error| error.to_string()) });
        (client, ending)
    }

    async fn answer(client: &mut DuplexStream) {
        let mut heard = Vec::new();
        while !heard.ends_with(b"well") {
            assert_ne!(client.read_buf(&mut heard).await.expect("heard"), 0, "{}", String::from_utf8_lossy(&heard));
        }
    }

    /// How long from now until the server leaves.
    async fn left_after(client: &mut DuplexStream) -> Duration {
        let began = Instant::now();
        client.read_to_end(&mut Vec::new()).await.expect("left");
        began.elapsed()
    }

    fn is_about(time: Duration, expected: Duration) -> bool {
        (expected..expected + Duration::from_millis(5)).contains(&time)
    }

    #[tokio::test(start_paused = true)]
    async fn half_a_head_is_waited_for_but_not_for_ever() {
        let (mut client, _ending) = connected();
        client.write_all(&WHOLE[..25]).await.expect("room");
        let left = left_after(&mut client).await;
        assert!(is_about(left, HEAD), "{left:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_that_trickles_is_not_waited_for_longer() {
        let (mut client, _ending) = connected();
        let began = Instant::now();
        client.write_all(WHOLE).await.expect("room");
        answer(&mut client).await;
        let mut sent = 0;
        while sent < 8 && client.write_all(&WHOLE[sent..=sent]).await.is_ok() {
            sleep(HEAD / 5).await;
            sent += 1;
        }
        let left = began.elapsed();
        assert!(left < HEAD * 7 / 5, "{left:?}, {sent} sent");
    }

    #[tokio::test(start_paused = true)]
    async fn every_head_has_its_own_time_and_so_has_an_idle_connection() {
        let (mut client, _ending) = connected();
        for _ in 0..7 {
            client.write_all(WHOLE).await.expect("room");
            answer(&mut client).await;
            sleep(HEAD * 9 / 10).await;
        }
        client.write_all(WHOLE).await.expect("it is still there");
        answer(&mut client).await;
        let left = left_after(&mut client).await;
        assert!(is_about(left, HEAD), "{left:?}");
    }

    /// A client of HTTP/2 that makes room for so much of each answer, and not for more.
    async fn with_room_for(bytes: u32) -> impl AsyncFnMut(&str) -> Incoming {
        let (client, server) = duplex(1 << 16);
        let service = service_fn(async |request: Request<Incoming>| {
            Ok(Response::new(match request.uri().path() {
                "/large" => Answer::whole(vec![b'x'; 1 << 17]),
                "/large/routed" => Answer::routed(vec![b'x'; 1 << 17].into()),
                "/late" => {
                    sleep(ROOM * 10).await;
                    Answer::whole("x")
                }
                _ => Answer::routed(Body::from_stream(stream::once(async {
                    sleep(ROOM * 10).await;
                    Ok::<_, Infallible>("x")
                }))),
            }))
        });
        tokio::spawn(async move {
            let (_ending, mut shutdown) = Ending::new();
            serve(server, service, &mut shutdown).await.map_err(|error| error.to_string())
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
    async fn an_answer_that_the_client_makes_no_room_for_is_not_kept() {
        for room in [0, 1] {
            let mut ask = with_room_for(room).await;
            for path in ["/large", "/large/routed"] {
                let answer = ask(path).await;
                // Whoever reads makes room.
                sleep(ROOM + Duration::from_millis(5)).await;
                assert!(answer.collect().await.is_err());
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_takes_long_by_itself_is_waited_for() {
        let mut ask = with_room_for(1).await;
        for path in ["/late", "/late/routed"] {
            let answer = ask(path).await.collect().await.expect("all of it");
            assert_eq!(answer.to_bytes(), "x");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_makes_room_slowly_gets_all_of_it() {
        let mut ask = with_room_for(16 << 10).await;
        for path in ["/large", "/large/routed"] {
            let (mut answer, mut received, began) = (ask(path).await, 0, Instant::now());
            while let Some(frame) = answer.frame().await {
                received += frame.expect("a piece").data_ref().expect("bytes").len();
                sleep(ROOM / 2).await;
            }
            assert_eq!(received, 1 << 17);
            assert!(began.elapsed() > ROOM * 3);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_idle_leaves_at_once_when_it_ends() {
        let (mut client, ending) = connected();
        client.write_all(WHOLE).await.expect("room");
        answer(&mut client).await;
        ending.begin();
        let left = left_after(&mut client).await;
        assert!(is_about(left, Duration::ZERO), "{left:?}");
    }
}
