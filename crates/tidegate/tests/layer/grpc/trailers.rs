//! A denial is trailers only for every kind of call: one HEADERS frame that ends the stream.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{CHECK, WATCH, serve};
use crate::clients::http2;
use crate::support::{Server, limiter, window};

const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// An empty message, as gRPC frames it.
const MESSAGE: [u8; 5] = [0; 5];

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// The headers of a call as HPACK has them, none of them compressed.
fn header_block(path: &str) -> Vec<u8> {
    let headers = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path),
        (":authority", "localhost"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ];
    let literal = |text: &str| [&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
    headers.iter().flat_map(|(name, value)| [vec![0], literal(name), literal(value)].concat()).collect()
}

/// The kinds and flags of the frames that answer a call, up to the one that ends it.
async fn frames_of_a_call(server: &Server, path: &str) -> Vec<(u8, u8)> {
    const DATA: u8 = 0;
    let mut connection = TcpStream::connect(server.address).await.unwrap();
    let call = [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
        frame(SETTINGS, 0, 0, &[]),
        frame(HEADERS, END_HEADERS, 1, &header_block(path)),
        frame(DATA, END_STREAM, 1, &MESSAGE),
    ];
    connection.write_all(&call.concat()).await.unwrap();
    let mut frames = Vec::new();
    while frames.last().is_none_or(|(_, flags)| flags & END_STREAM == 0) {
        let mut head = [0; 9];
        connection.read_exact(&mut head).await.unwrap();
        let [a, b, c, kind, flags, stream @ ..] = head;
        let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        connection.read_exact(&mut payload).await.unwrap();
        if u32::from_be_bytes(stream) == 1 {
            frames.push((kind, flags));
        }
    }
    frames
}

#[tokio::test]
async fn denial_is_one_frame() {
    for path in [CHECK, WATCH] {
        let limiter = limiter(window(1));
        let server = serve(limiter.enforcer("api").unwrap()).await;
        // So that one frame means something: a call that is admitted has a message and trailers.
        let admitted = frames_of_a_call(&server, CHECK).await;
        assert!(admitted.len() > 1, "{admitted:?}");
        assert_eq!(frames_of_a_call(&server, path).await, [(HEADERS, END_HEADERS | END_STREAM)]);
    }
}

#[tokio::test]
async fn denial_is_status_200_with_all_fields_in_its_headers() {
    let limiter = limiter(window(1));
    let server = serve(limiter.enforcer("api").unwrap()).await;
    let call = || http2().post(server.url(CHECK)).header("content-type", "application/grpc").body(MESSAGE.to_vec());
    assert_eq!(call().send().await.unwrap().headers().get("grpc-status"), None);
    let denied = call().send().await.unwrap();
    assert_eq!(denied.status(), 200);
    let header = |name: &str| denied.headers()[name].to_str().unwrap();
    assert_eq!(header("content-type"), "application/grpc");
    assert_eq!((header("grpc-status"), header("grpc-message")), ("8", "quota%20exceeded"));
    assert_eq!(header("grpc-retry-pushback-ms"), "60000");
    assert!(denied.headers().contains_key("grpc-status-details-bin"));
    assert!(!denied.headers().contains_key("retry-after") && !denied.headers().contains_key("ratelimit"));
    assert_eq!(denied.bytes().await.unwrap().len(), 0);
}
