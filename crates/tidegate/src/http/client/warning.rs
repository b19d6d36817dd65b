//! Noticing a proxy that nobody has told us about.

use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use http::{HeaderMap, HeaderName};

use super::ClientAddress;

/// What proxies write, and clients seldom.
const FORWARDING: [&str; 5] = ["x-forwarded-for", "forwarded", "x-real-ip", "cf-connecting-ip", "true-client-ip"];

/// Notices, once, that requests come through a proxy that is not trusted, so that everybody behind it is one client.
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
#[derive(Debug, Default)]
pub struct ForwardingWarning {
    given: AtomicBool,
}

impl ForwardingWarning {
    /// A warning that has not been given yet.
    pub const fn new() -> Self {
        ForwardingWarning { given: AtomicBool::new(false) }
    }

    /// What to tell the operator, for the first request that gives reason to, and `None` for all others.
    pub fn notice(&self, clients: &ClientAddress, peer: IpAddr, headers: &HeaderMap) -> Option<UntrustedForwarding> {
        if clients.trusts(peer) { None } else { self.notice_from(peer.to_canonical(), headers) }
    }

    /// The same, of a peer that is not trusted.
    #[inline]
    pub(super) fn notice_from(&self, peer: IpAddr, headers: &HeaderMap) -> Option<UntrustedForwarding> {
        if self.given.load(Ordering::Relaxed) {
            return None;
        }
        let header = forwarding(headers)?;
        // Of requests at the same time, one gets to tell.
        let first = !self.given.swap(true, Ordering::Relaxed);
        first.then_some(UntrustedForwarding { peer, header })
    }
}

/// The first of such headers. Going over all names costs less than looking up each of these, and most are told from them
/// by their lengths.
fn forwarding(headers: &HeaderMap) -> Option<&'static str> {
    const LENGTHS: u64 = {
        let (mut lengths, mut index) = (0, 0);
        while index < FORWARDING.len() {
            lengths |= 1 << FORWARDING[index].len();
            index += 1;
        }
        lengths
    };
    let mut names =
        headers.keys().map(HeaderName::as_str).filter(|name| LENGTHS.unbounded_shr(name.len() as u32) & 1 == 1);
    names.find_map(|name| FORWARDING.into_iter().find(|forwarding| *forwarding == name))
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
