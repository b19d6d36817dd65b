//! Malformed requests to the rate limit service.

use tidegate_testkit::Random;

use super::{http2, noise};

pub(super) fn input(random: &mut Random) -> Vec<u8> {
    match random.below(10) {
        0 => noise(random, 13),
        // HTTP, but not of the kind that gRPC needs.
        1 => b"POST /envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit HTTP/1.1\r\nhost: x\r\ncontent-type: application/grpc\r\n\r\n".to_vec(),
        _ => http2::input(random),
    }
}
