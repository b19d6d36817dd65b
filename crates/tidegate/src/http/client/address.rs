//! How the address of a client is found.

use std::net::{IpAddr, Ipv6Addr};

use http::header::{FORWARDED, HeaderMap, HeaderName, HeaderValue};

use super::{Client, ForwardingWarning, entry, forwarded};
use crate::trust::TrustProxy;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// How the address of a client is found.
///
/// It is the socket's peer, unless the operator trusts proxies. Then one header is read, and no other ever is:
/// - `x-forwarded-for` unless told otherwise, and `forwarded` (RFC 7239), are lists to which each proxy adds whom it
///   got the request from. They are read from the right, the side that the client does not write, up to the first
///   address that the operator does not trust.
/// - Any other, such as `cf-connecting-ip` or `x-real-ip`, is one address. If there are several, the last one counts.
///
/// An entry that is not an address ends the reading at the last one that was.
#[derive(Debug, Clone, PartialEq, Eq)]
#[repr(C)] // what every request looks at first
pub struct ClientAddress {
    ipv6_prefix: u8,
    trust: TrustProxy,
    form: Form,
    header: HeaderName,
}

/// What a header's value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Addresses,
    Forwarded,
    One,
}

impl Default for ClientAddress {
    fn default() -> Self {
        let (trust, header) = (TrustProxy::Nobody, X_FORWARDED_FOR);
        ClientAddress { trust, header, form: Form::Addresses, ipv6_prefix: 64 }
    }
}

impl ClientAddress {
    /// The client is the socket's peer, and nothing it sends is believed.
    pub fn new() -> Self {
        Self::default()
    }

    /// The platform sets this header on every request, such as `cf-connecting-ip`, and nobody can reach the program
    /// other than through it: one hop is trusted, whatever its address.
    pub fn set_by_platform(header: HeaderName) -> Self {
        Self::new().trust(TrustProxy::hops(1)).header(header)
    }

    /// Whose word about the client is believed. Nobody's unless set.
    #[must_use]
    pub fn trust(mut self, trust: TrustProxy) -> Self {
        self.trust = trust;
        self
    }

    /// The one header that is read from a trusted peer. `x-forwarded-for` unless set.
    #[must_use]
    pub fn header(mut self, header: HeaderName) -> Self {
        self.form = if header == X_FORWARDED_FOR {
            Form::Addresses
        } else if header == FORWARDED {
            Form::Forwarded
        } else {
            Form::One
        };
        self.header = header;
        self
    }

    /// How many bits of an IPv6 address tell clients apart: 64 unless set, what one customer usually has. With 0 all of
    /// IPv6 is one client; more than 128 is 128.
    #[must_use]
    pub fn ipv6_prefix(mut self, bits: u8) -> Self {
        self.ipv6_prefix = bits;
        self
    }

    /// The name of the one header that is read.
    pub fn header_name(&self) -> &HeaderName {
        &self.header
    }

    /// Whether what this peer says about the client is believed.
    #[inline]
    pub fn trusts(&self, peer: IpAddr) -> bool {
        self.trust.believes(0, peer.to_canonical())
    }

    /// Whether nobody's word about the client is believed.
    #[cfg(feature = "tower")]
    pub(in crate::http) fn trusts_nobody(&self) -> bool {
        self.trust == TrustProxy::Nobody
    }

    /// The client that a peer is, where it is one.
    fn at(&self, peer: IpAddr) -> Client {
        Client::new(peer, self.ipv6_prefix)
    }

    /// The client that sent a request with these headers over a connection from `peer`.
    #[inline]
    pub fn find(&self, peer: IpAddr, headers: &HeaderMap) -> Client {
        self.find_or(peer, headers, |_| ())
    }

    /// The same, which also [warns](ForwardingWarning) the operator of a proxy that nobody has told us about: in the log,
    /// with the feature `tracing`. Without it the one warning is lost; see [`ForwardingWarning::notice`] for others.
    #[inline]
    pub fn find_noticing(&self, warning: &ForwardingWarning, peer: IpAddr, headers: &HeaderMap) -> Client {
        self.find_or(peer, headers, |peer| {
            if let Some(noticed) = warning.notice_from(peer, headers) {
                noticed.log();
            }
        })
    }

    #[inline]
    fn find_or(&self, peer: IpAddr, headers: &HeaderMap, untrusted: impl FnOnce(IpAddr)) -> Client {
        let peer = match peer {
            IpAddr::V4(_) => peer,
            IpAddr::V6(address) => canonical(address),
        };
        if !self.trust.believes(0, peer) {
            untrusted(peer);
            return self.at(peer);
        }
        self.find_in_lines(peer, headers.get_all(&self.header).iter().map(HeaderValue::as_bytes))
    }

    /// The same for headers of another kind: `lines` are the values of [`header_name`](Self::header_name), in the
    /// order they came in. They may be any bytes, and are looked at from the right and no further than needed.
    pub fn find_in_lines<'a, L>(&self, peer: IpAddr, lines: L) -> Client
    where
        L: IntoIterator<Item = &'a [u8], IntoIter: DoubleEndedIterator>,
    {
        let peer = peer.to_canonical();
        let lines = lines.into_iter().rev();
        let address = match self.form {
            Form::Addresses => self.trust.walk(peer, lines.flat_map(entry::addresses)),
            Form::Forwarded => self.trust.walk(peer, lines.flat_map(forwarded::addresses)),
            // Whoever sets it means the client, and not a proxy to look behind.
            Form::One => self.trust.walk(peer, lines.flat_map(entry::addresses).take(1)),
        };
        self.at(address)
    }
}

/// Not where it is asked for: the sixteen bytes would be taken apart for every address, and most are IPv4.
#[inline(never)]
fn canonical(address: Ipv6Addr) -> IpAddr {
    address.to_canonical()
}
