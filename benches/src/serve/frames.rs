//! A cheap gRPC client: it sends prepared HTTP/2 frames and decodes only the messages of responses.

use prost::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;
/// The flag of the last frame of a stream.
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// The flag of an acknowledgement, for frames without a stream.
const ACKNOWLEDGED: u8 = 1;
/// The head of a frame: its length, kind, flags and stream.
const FRAME_HEAD_BYTES: usize = 9;
/// The prefix of a message: whether it is compressed, and its length.
const GRPC_PREFIX_BYTES: usize = 5;

/// A connection that calls one method.
pub(super) struct Connection {
    stream: TcpStream,
    /// The bytes to send.
    output: Vec<u8>,
    /// The stream number of the next call.
    next: u32,
}

impl Connection {
    pub(super) async fn open(port: u16, path: &str) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).await.expect("the server listens");
        stream.set_nodelay(true).expect("a TCP connection");
        let mut connection = Connection { stream, output: b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), next: 1 };
        connection.frame(SETTINGS, 0, 0, &[]);
        // A window larger than all answers.
        connection.frame(WINDOW_UPDATE, 0, 0, &0x7fff_0000_u32.to_be_bytes());
        connection.send_preface(path);
        connection
    }

    /// Sends the first call's headers. Both ends store them, so later calls need a byte for each. It is a call without
    /// a message, which a server answers with an error.
    fn send_preface(&mut self, path: &str) {
        // POST, http, and new headers: a path, an authority, a content type, and a custom name with its value.
        let mut headers = vec![0x83, 0x86];
        let mut add = |name: &[u8], value: &str| {
            headers.extend_from_slice(name);
            headers.push(value.len() as u8);
            headers.extend_from_slice(value.as_bytes());
        };
        add(&[0x44], path);
        add(&[0x41], "localhost");
        add(&[0x5f], "application/grpc");
        add(&[0x40, 2, b't', b'e'], "trailers");
        let stream = self.stream_number();
        self.frame(HEADERS, END_HEADERS | END_STREAM, stream, &headers);
    }

    /// Makes that many calls, with that many in flight, and passes every answer to the caller.
    pub(super) async fn run_calls<R: Message>(
        mut self,
        streams: u64,
        calls: u64,
        mut request: impl FnMut() -> R,
        answered: impl Fn(&[u8]),
    ) {
        let (mut sent, mut done, mut answers) = (0, 0, 0);
        let (mut input, mut filled) = (vec![0; 64 << 10], 0);
        while done <= calls {
            // The first call of `send_preface` counts as in flight, and as done.
            while sent < calls && sent + 1 < done + streams {
                self.call(&request());
                sent += 1;
            }
            self.stream.write_all(&self.output).await.expect("the server reads");
            self.output.clear();
            let read = self.stream.read(&mut input[filled..]).await.expect("the server answers");
            assert_ne!(read, 0, "the server hung up");
            filled += read;
            let mut at = 0;
            while let Some((kind, flags, payload)) = frame(&input[at..filled]) {
                match kind {
                    DATA if !payload.is_empty() => {
                        answered(&payload[GRPC_PREFIX_BYTES..]);
                        answers += 1;
                    }
                    HEADERS if flags & END_STREAM != 0 => done += 1,
                    SETTINGS if flags & ACKNOWLEDGED == 0 => self.frame(SETTINGS, ACKNOWLEDGED, 0, &[]),
                    PING if flags & ACKNOWLEDGED == 0 => self.frame(PING, ACKNOWLEDGED, 0, payload),
                    DATA | HEADERS | SETTINGS | PING | WINDOW_UPDATE => {}
                    other => panic!("a frame of kind {other}, which ends a call or the connection: {payload:?}"),
                }
                at += FRAME_HEAD_BYTES + payload.len();
            }
            input.copy_within(at..filled, 0);
            filled -= at;
        }
        assert_eq!(answers, calls, "not every call was answered with a message");
    }

    fn call(&mut self, request: &impl Message) {
        let stream = self.stream_number();
        // The stored headers. The latest one has number 62.
        self.frame(HEADERS, END_HEADERS, stream, &[0x83, 0x86, 0xc1, 0xc0, 0xbf, 0xbe]);
        let length = request.encoded_len();
        self.head(GRPC_PREFIX_BYTES + length, DATA, END_STREAM, stream);
        self.output.push(0);
        self.output.extend_from_slice(&(length as u32).to_be_bytes());
        request.encode(&mut self.output).expect("room");
    }

    fn stream_number(&mut self) -> u32 {
        let number = self.next;
        self.next += 2;
        number
    }

    fn frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        self.head(payload.len(), kind, flags, stream);
        self.output.extend_from_slice(payload);
    }

    fn head(&mut self, length: usize, kind: u8, flags: u8, stream: u32) {
        self.output.extend_from_slice(&(length as u32).to_be_bytes()[1..]);
        self.output.extend_from_slice(&[kind, flags]);
        self.output.extend_from_slice(&stream.to_be_bytes());
    }
}

/// Returns the first frame in `bytes` if it is complete: its kind, flags and payload.
fn frame(bytes: &[u8]) -> Option<(u8, u8, &[u8])> {
    let &[a, b, c, kind, flags, ..] = bytes else { return None };
    let length = u32::from_be_bytes([0, a, b, c]) as usize;
    Some((kind, flags, bytes.get(FRAME_HEAD_BYTES..FRAME_HEAD_BYTES + length)?))
}
