//! A one-time warning about a proxy that is not trusted.

use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, Ordering};

use http::HeaderMap;

use super::ClientAddress;

/// Headers that proxies write, and clients seldom write.
const FORWARDING_HEADERS: [&str; 5] =
    ["x-forwarded-for", "forwarded", "x-real-ip", "cf-connecting-ip", "true-client-ip"];

/// The number of requests to check. Nearly every request through a proxy has such a header, and a check costs time. The
/// number is large because early health checks may lack the header.
const MAX_CHECKED_REQUESTS: u32 = 100_000;

/// Detects an untrusted proxy, which makes all clients behind it one client, and warns once. It checks about the first
/// hundred thousand requests from untrusted peers, because the mistake shows when a program starts.
///
/// ```
/// use tidegate::http::{ClientAddress, ForwardingWarning, HeaderMap};
///
/// static WARNING: ForwardingWarning = ForwardingWarning::new();
///
/// # let (peer, headers) = ("10.0.0.7".parse()?, HeaderMap::new());
/// let clients = ClientAddress::new();
/// if let Some(noticed) = WARNING.notice(&clients, peer, &headers) {
///     eprintln!("{noticed}");
/// }
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
#[derive(Debug)]
pub struct ForwardingWarning {
    /// The number of requests still to check.
    left: AtomicU32,
}

impl Default for ForwardingWarning {
    fn default() -> Self {
        ForwardingWarning::new()
    }
}

impl ForwardingWarning {
    /// Creates a warning that has not been given yet.
    pub const fn new() -> Self {
        ForwardingWarning { left: AtomicU32::new(MAX_CHECKED_REQUESTS) }
    }

    /// Returns a message for the operator at the first checked request that shows an untrusted proxy, and `None` for
    /// all other requests.
    pub fn notice(&self, clients: &ClientAddress, peer: IpAddr, headers: &HeaderMap) -> Option<UntrustedForwarding> {
        if clients.trusts(peer) { None } else { self.notice_from(peer.to_canonical(), headers) }
    }

    /// Returns the warning as [`notice`](Self::notice) does, for a peer that is not trusted.
    #[inline]
    pub(super) fn notice_from(&self, peer: IpAddr, headers: &HeaderMap) -> Option<UntrustedForwarding> {
        match self.left.load(Ordering::Relaxed) {
            0 => None,
            left => self.check(left, peer, headers),
        }
    }

    #[cold]
    fn check(&self, left: u32, peer: IpAddr, headers: &HeaderMap) -> Option<UntrustedForwarding> {
        let Some(header) = forwarding_header(headers) else {
            // Concurrent requests may count as one, but a warning that was given stays given.
            let _ = self.left.compare_exchange(left, left - 1, Ordering::Relaxed, Ordering::Relaxed);
            return None;
        };
        // One of several concurrent requests gets the warning.
        let first = self.left.swap(0, Ordering::Relaxed) != 0;
        first.then_some(UntrustedForwarding { peer, header })
    }
}

/// Returns the first forwarding header. One pass over all names costs less than five lookups.
fn forwarding_header(headers: &HeaderMap) -> Option<&'static str> {
    headers.keys().find_map(|name| FORWARDING_HEADERS.into_iter().find(|forwarding| *forwarding == name.as_str()))
}

/// A forwarding header from a peer that is not trusted: the sign of a missing `trust_proxy`. Displays as the message
/// for the operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UntrustedForwarding {
    peer: IpAddr,
    header: &'static str,
}

impl UntrustedForwarding {
    /// Logs the message as a warning through `tracing`. Does nothing without the feature of that name.
    pub fn log(&self) {
        #[cfg(feature = "tracing")]
        tracing::warn!(peer = %self.peer, header = self.header, "{self}");
    }
}

impl fmt::Display for UntrustedForwarding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UntrustedForwarding { peer, header } = self;
        write!(
            f,
            "a request from {peer} came with {header}, which was not read because {peer} is not trusted. If that is a \
             proxy of yours, everybody behind it counts as one client until trust_proxy is set; if it is a client, \
             nothing needs to be done. This is said once"
        )
    }
}
