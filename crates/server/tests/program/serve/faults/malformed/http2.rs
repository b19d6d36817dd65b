//! HTTP/2 frames, and malformed ones.

use prost::Message;
use tidegate_testkit::Random;

use super::{corrupt, random_bytes};
use crate::serve::grpc::{descriptor, request};

pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;
pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;

/// One frame.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a length").to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// The start of a connection.
pub(crate) fn connection_start() -> Vec<u8> {
    [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat()
}

/// The head of a question to the rate limit service.
pub(crate) fn request_headers() -> Vec<u8> {
    let path = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
    headers("POST", path, &[("content-type", "application/grpc"), ("te", "trailers")])
}

/// The head of a request.
pub(crate) fn headers(method: &str, path: &str, more: &[(&str, &str)]) -> Vec<u8> {
    let pairs = [(":method", method), (":scheme", "http"), (":path", path), (":authority", "localhost")];
    pairs.iter().chain(more).flat_map(|(name, value)| literal(name, value)).collect()
}

/// A message as gRPC sends it, of this user.
pub(crate) fn grpc_message(user: &str) -> Vec<u8> {
    let message = request("shop", &[descriptor("user", user)]).encode_to_vec();
    [&[0][..], &(message.len() as u32).to_be_bytes(), &message].concat()
}

pub(super) fn random_input(random: &mut Random) -> Vec<u8> {
    match random.below(9) {
        0 => [connection_start(), random_bytes(random, 13)].concat(),
        1..=3 => {
            let bytes = valid_requests(random);
            corrupt(random, bytes)
        }
        4 => [connection_start(), random_frames(random)].concat(),
        5 => [PREFACE.to_vec(), absurd_lengths(random)].concat(),
        6 => [connection_start(), headers_frame(), frame(DATA, END_STREAM, 1, &wrong_message(random))].concat(),
        7 => [connection_start(), many_headers(random)].concat(),
        _ => [connection_start(), rapid_frames(random)].concat(),
    }
}

/// Returns a malformed request to the gRPC port.
pub(crate) fn random_grpc_input(random: &mut Random) -> Vec<u8> {
    match random.below(10) {
        0 => random_bytes(random, 13),
        // HTTP, but not of the kind that gRPC needs.
        1 => b"POST /envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/grpc\r\n\r\n".to_vec(),
        _ => random_input(random),
    }
}

fn valid_requests(random: &mut Random) -> Vec<u8> {
    let mut bytes = connection_start();
    for stream in 0..random.between(1, 8) as u32 {
        bytes.extend(frame(HEADERS, END_HEADERS, 2 * stream + 1, &request_headers()));
        bytes.extend(frame(DATA, END_STREAM, 2 * stream + 1, &grpc_message("u")));
    }
    bytes
}

fn headers_frame() -> Vec<u8> {
    frame(HEADERS, END_HEADERS, 1, &request_headers())
}

/// A header in the plainest way: not indexed, not compressed.
fn literal(name: &str, value: &str) -> Vec<u8> {
    [&[0, name.len() as u8][..], name.as_bytes(), &[value.len() as u8], value.as_bytes()].concat()
}

/// Frames of every kind with anything in them.
fn random_frames(random: &mut Random) -> Vec<u8> {
    let one = |random: &mut Random| {
        let (kind, flags, stream) = (random.below(12) as u8, random.next() as u8, random.below(6) as u32);
        frame(kind, flags, stream, &random_bytes(random, 8))
    };
    (0..random.between(1, 50)).flat_map(|_| one(random)).collect()
}

/// Absurd lengths, windows and table sizes.
fn absurd_lengths(random: &mut Random) -> Vec<u8> {
    let mut lies = frame(random.below(10) as u8, 0, random.below(3) as u32, &random_bytes(random, 12));
    lies[..3].copy_from_slice(&random.pick(&[[0xff, 0xff, 0xff], [0, 0x40, 1], [0x10, 0, 0]]));
    let setting = |name: u16, value: u32| [&name.to_be_bytes()[..], &value.to_be_bytes()].concat();
    let settings: Vec<u8> =
        (1..=6).flat_map(|name| setting(name, random.pick(&[0, 1, 0x7fff_ffff, 0xffff_ffff]))).collect();
    let window = frame(WINDOW_UPDATE, 0, 0, &0x7fff_ffff_u32.to_be_bytes());
    match random.below(3) {
        0 => [frame(SETTINGS, 0, 0, &[]), lies].concat(),
        1 => {
            [frame(SETTINGS, 0, 0, &settings), headers_frame(), frame(DATA, END_STREAM, 1, &grpc_message("u"))].concat()
        }
        _ => [frame(SETTINGS, 0, 0, &[]), headers_frame(), window.repeat(5)].concat(),
    }
}

/// A message whose length is a lie, that claims to be compressed, or that is deep.
fn wrong_message(random: &mut Random) -> Vec<u8> {
    let lengths: [u32; 5] = [0, 1 << 20, (1 << 20) + 1, 1 << 30, u32::MAX];
    match random.below(3) {
        0 => {
            [&[random.pick(&[0, 1, 255])][..], &random.pick(&lengths).to_be_bytes(), &random_bytes(random, 12)].concat()
        }
        1 => {
            let message = random_bytes(random, 12);
            [&[0][..], &(message.len() as u32).to_be_bytes(), &message].concat()
        }
        // Nested groups of an unknown field.
        _ => [&[0][..], &12_000_u32.to_be_bytes(), &[0x7b; 12_000]].concat(),
    }
}

/// Headers that go on and on: as they are, or as a few bytes that stand for many.
fn many_headers(random: &mut Random) -> Vec<u8> {
    let part: Vec<u8> = (0..100).flat_map(|_| literal("x-header", &"y".repeat(100))).collect();
    let stands_for_many = [&[0x40, 1, b'x', 0x7f, 0xa1, 0x1e][..], &[b'y'; 4_000], &[0xbe; 10_000]].concat();
    let end = if random.one_in(2) { END_HEADERS } else { 0 };
    match random.below(2) {
        0 => {
            let more = frame(CONTINUATION, 0, 1, &part).repeat(random.between(1, 20) as usize);
            [frame(HEADERS, 0, 1, &request_headers()), more, frame(CONTINUATION, end, 1, &part)].concat()
        }
        _ => frame(HEADERS, end, 1, &[request_headers(), stands_for_many].concat()),
    }
}

/// Much that is small and makes work.
fn rapid_frames(random: &mut Random) -> Vec<u8> {
    let count = random.between(100, 2_000) as u32;
    let one = |number: u32, kind| match kind {
        0 => [
            frame(HEADERS, END_HEADERS, 2 * number + 1, &request_headers()),
            frame(RST_STREAM, 0, 2 * number + 1, &[0, 0, 0, 8]),
        ]
        .concat(),
        1 => frame(PING, 0, 0, &[7; 8]),
        2 => frame(SETTINGS, 0, 0, &[]),
        _ => frame(HEADERS, END_HEADERS, 2 * number + 1, &request_headers()),
    };
    let kind = random.below(4);
    (0..count.min(if kind == 0 || kind == 3 { 400 } else { count })).flat_map(|number| one(number, kind)).collect()
}
