//! A one-time warning about a proxy that is not trusted.

use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, Ordering};

use http::HeaderMap;

use super::ClientAddress;

/// Headers that proxies write, and clients seldom.
const FORWARDING_HEADERS: [&str; 5] =
    ["x-forwarded-for", "forwarded", "x-real-ip", "cf-connecting-ip", "true-client-ip"];

/// How many requests are checked. Nearly every request through a proxy has such a header, and a check costs time. Health
/// checks without the header must not use up all checks before other requests come.
const MAX_CHECKED_REQUESTS: u32 = 100_000;

/// Notices, once, that requests come through a proxy that is not trusted, so that everybody behind it is one client. That
/// shows when a program starts: about the first hundred thousand requests of peers that are not trusted are looked at.
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
    /// How many requests are still checked.
    left: AtomicU32,
}

impl Default for ForwardingWarning {
    fn default() -> Self {
        ForwardingWarning::new()
    }
}

impl ForwardingWarning {
    /// A warning that has not been given yet.
    pub const fn new() -> Self {
        ForwardingWarning { left: AtomicU32::new(MAX_CHECKED_REQUESTS) }
    }

    /// What to tell the operator, for the first request that gives reason to if it is among those that are looked at, and
    /// `None` for all others.
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

/// Returns the first forwarding header. Going over all names costs less than looking up each of these.
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
    /// Logs the message as a warning through `tracing`; without the feature of that name, does nothing.
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
