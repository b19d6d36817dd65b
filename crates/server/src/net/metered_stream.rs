//! `MeteredStream`: counts the input of an HTTP connection that is not a whole request yet, and output that its client does not read.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::buffer_budget::BufferAccount;
use super::http_connection::MAX_HEADER_BYTES;

/// The first buffer of a connection, which is counted with the connection itself.
const FIRST_BUFFER_BYTES: usize = 8 << 10;
/// Unread output that is counted with the connection itself.
const FREE_OUTPUT_BYTES: usize = 4 << 10;
/// The most that the decoded part of an incomplete HTTP/2 head takes.
const PARTIAL_HEAD_BYTES: usize = 96 << 10;
/// What stays with an HTTP/2 connection for each frame that it received at a time, and how many are counted with the connection.
const FRAME_BYTES: usize = 512;
const FREE_FRAMES: usize = 8;

/// A byte stream that counts what waits before and behind it, fails when there is no room for more, and tells when its output is
/// sent.
pub(crate) struct MeteredStream<S> {
    stream: S,
    account: Arc<BufferAccount>,
    input: Input,
    counted_input: usize,
    counted_output: usize,
}

impl<S> MeteredStream<S> {
    pub(crate) fn new(stream: S, account: Arc<BufferAccount>) -> Self {
        MeteredStream { stream, account, input: Input::Unknown(0), counted_input: 0, counted_output: 0 }
    }

    /// Counts the input with these bytes.
    fn count_input(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.input.read(bytes, &self.account);
        let buffered = self.input.buffered(&self.account);
        if self.account.try_resize(&mut self.counted_input, buffered) { Ok(()) } else { Err(no_room()) }
    }

    /// Counts the output that is offered again and again until the client reads it. That is all that the protocol has buffered.
    fn count_output(&mut self, bytes: usize, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        let unsent = if written.is_pending() { bytes.saturating_sub(FREE_OUTPUT_BYTES) } else { 0 };
        if self.account.try_resize(&mut self.counted_output, unsent) { written } else { Poll::Ready(Err(no_room())) }
    }
}

fn no_room() -> io::Error {
    io::Error::new(io::ErrorKind::OutOfMemory, "too many bytes wait in the server")
}

impl<S: AsyncRead + Unpin> AsyncRead for MeteredStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if read.is_pending() {
            self.input.drained();
        }
        ready!(read)?;
        Poll::Ready(self.count_input(&buffer.filled()[before..]))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for MeteredStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.count_output(bytes.len(), written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.count_output(slices.iter().map(|slice| slice.len()).sum(), written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(context))?;
        self.account.flushed();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// The input of a connection, by protocol.
enum Input {
    /// So many bytes are read, which begin as HTTP/2 does.
    Unknown(usize),
    Http1,
    Http2(Frames),
}

/// The bytes that an HTTP/2 connection begins with.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

impl Input {
    fn read(&mut self, mut bytes: &[u8], account: &BufferAccount) {
        if let Input::Unknown(known) = self {
            let expected = &PREFACE[*known..];
            let common = expected.len().min(bytes.len());
            if bytes[..common] == expected[..common] {
                *known += common;
                bytes = &bytes[common..];
                if *known == PREFACE.len() {
                    *self = Input::Http2(Frames::default());
                }
            } else {
                *self = Input::Http1;
            }
        }
        match self {
            Input::Unknown(_) => {}
            Input::Http1 => account.input().read(bytes.len()),
            Input::Http2(frames) => frames.read(bytes),
        }
    }

    /// All input so far is with the requests that it belongs to.
    fn drained(&mut self) {
        if let Input::Http2(frames) = self {
            frames.burst = 0;
        }
    }

    /// How many bytes of it may be buffered, beyond those that are counted with the connection.
    fn buffered(&self, account: &BufferAccount) -> usize {
        match self {
            Input::Unknown(_) => 0,
            // A buffer may be twice as large as its content.
            Input::Http1 => 2 * account.input().buffered().saturating_sub(FIRST_BUFFER_BYTES),
            Input::Http2(frames) => frames.buffered(),
        }
    }
}

/// The input of an HTTP/1 connection that may be buffered: at most an incomplete head, and what came with the one before.
#[derive(Default)]
pub(super) struct Http1Input {
    bytes: usize,
    last_read: usize,
}

impl Http1Input {
    fn read(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.last_read = bytes;
    }

    /// Notes that a head is complete. All that may still be buffered has come with the last read.
    pub(super) fn note_head(&mut self) {
        self.bytes = self.last_read;
    }

    /// Notes that a part of a body has left the buffer.
    pub(super) fn note_body(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    fn buffered(&self) -> usize {
        self.bytes.min(MAX_HEADER_BYTES)
    }
}

/// The bytes of a frame's head: its length, kind, flags and stream.
const FRAME_HEAD_BYTES: usize = 9;
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 4;

/// The frames of an HTTP/2 connection.
#[derive(Default)]
struct Frames {
    head: [u8; FRAME_HEAD_BYTES],
    head_filled: usize,
    length: usize,
    left: usize,
    /// Whether the head of a request is incomplete: its frames have to follow.
    has_partial_head: bool,
    /// How many frames came at a time, by now and at most.
    burst: usize,
    peak: usize,
}

impl Frames {
    fn read(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.left > 0 {
                let payload = self.left.min(bytes.len());
                self.left -= payload;
                bytes = &bytes[payload..];
                continue;
            }
            let part = (FRAME_HEAD_BYTES - self.head_filled).min(bytes.len());
            self.head[self.head_filled..][..part].copy_from_slice(&bytes[..part]);
            self.head_filled += part;
            bytes = &bytes[part..];
            if self.head_filled == FRAME_HEAD_BYTES {
                self.begin_frame();
            }
        }
    }

    fn begin_frame(&mut self) {
        let [high, middle, low, kind, flags, ..] = self.head;
        self.head_filled = 0;
        self.length = u32::from_be_bytes([0, high, middle, low]) as usize;
        self.left = self.length;
        if matches!(kind, HEADERS | CONTINUATION) {
            self.has_partial_head = flags & END_HEADERS == 0;
        }
        if matches!(kind, DATA | HEADERS) {
            self.burst += 1;
            self.peak = self.peak.max(self.burst);
        }
    }

    fn buffered(&self) -> usize {
        let incomplete = if self.left > 0 { self.length.saturating_sub(FIRST_BUFFER_BYTES) } else { 0 };
        let partial_head = if self.has_partial_head { PARTIAL_HEAD_BYTES } else { 0 };
        incomplete + partial_head + FRAME_BYTES * self.peak.saturating_sub(FREE_FRAMES)
    }
}

#[cfg(test)]
mod tests {
    use super::super::buffer_budget::{BufferBudget, OpenAccount};
    use super::*;

    fn account() -> OpenAccount {
        BufferBudget::new(1 << 20).connect(0).expect("room")
    }

    /// What is counted after all of the input, which is the same however it is split.
    fn buffered(input: &[u8]) -> usize {
        let count = |size: usize| {
            let (open, mut meter) = (account(), Input::Unknown(0));
            input.chunks(size).for_each(|part| meter.read(part, open.account()));
            meter.buffered(open.account())
        };
        let whole = count(input.len());
        for size in [1, 2, 7, 100] {
            assert_eq!(count(size), whole, "in parts of {size}");
        }
        whole
    }

    fn frame(kind: u8, flags: u8, length: usize) -> Vec<u8> {
        let head = [0, (length >> 8) as u8, length as u8, kind, flags, 0, 0, 0, 1];
        [&head[..], &vec![0; length]].concat()
    }

    #[test]
    fn complete_http2_frames_are_not_buffered() {
        let whole = [PREFACE, &frame(HEADERS, END_HEADERS, 50), &frame(DATA, 1, 16 << 10)].concat();
        assert_eq!(buffered(&whole), 0);
        let continued = [PREFACE, &frame(HEADERS, 0, 50), &frame(CONTINUATION, END_HEADERS, 50)].concat();
        assert_eq!(buffered(&continued), 0);
    }

    #[test]
    fn incomplete_http2_frame_and_head_are_counted() {
        let partial_frame = [PREFACE, &frame(DATA, 0, 16 << 10)[..100]].concat();
        assert_eq!(buffered(&partial_frame), (16 << 10) - FIRST_BUFFER_BYTES);
        let partial_head = [PREFACE, &frame(HEADERS, 0, 50)].concat();
        assert_eq!(buffered(&partial_head), PARTIAL_HEAD_BYTES);
    }

    #[test]
    fn most_http2_frames_at_a_time_stay_counted() {
        let (open, mut meter) = (account(), Input::Unknown(0));
        meter.read(&[PREFACE, &frame(DATA, 0, 1).repeat(FREE_FRAMES + 3)].concat(), open.account());
        assert_eq!(meter.buffered(open.account()), 3 * FRAME_BYTES);
        meter.drained();
        meter.read(&frame(DATA, 0, 1).repeat(FREE_FRAMES + 1), open.account());
        assert_eq!(meter.buffered(open.account()), 3 * FRAME_BYTES);
    }

    #[test]
    fn http1_input_is_counted_until_its_head_is_complete() {
        let (open, mut meter) = (account(), Input::Unknown(0));
        let account = open.account();
        meter.read(b"POST / HTTP/1.1\r\n", account);
        meter.read(&[b'x'; 20 << 10], account);
        assert_eq!(meter.buffered(account), 2 * ((20 << 10) + 17 - FIRST_BUFFER_BYTES));
        meter.read(b"\r\n\r\n", account);
        account.input().note_head();
        assert_eq!(meter.buffered(account), 0);
        meter.read(&[b'x'; 64 << 10], account);
        account.input().note_body(60 << 10);
        assert_eq!(meter.buffered(account), 0);
    }
}
