//! Free ports.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::TcpListener;

/// A port that is free, as is the one 10,000 above, where the nodes of a Redis cluster talk to each other.
///
/// Both lie below the ports that systems give to outgoing connections: a client that looks for a server while that is
/// down must not take its port.
pub fn free_port() -> Result<u16, String> {
    let free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    let random = || 12_000 + (RandomState::new().build_hasher().finish() % 10_000) as u16;
    let mut ports = std::iter::repeat_with(random).take(1_000);
    ports.find(|&port| free(port) && free(port + 10_000)).ok_or_else(|| "no port is free".to_owned())
}
