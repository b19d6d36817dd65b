//! The address of a client, found in a way that no client can forge.

mod header_lists;
mod warning;

use std::fmt::{self, Write};
use std::net::IpAddr;
use std::ops::Deref;

use http::header::{FORWARDED, HeaderMap, HeaderName, HeaderValue};
use tidegate_core::Key;

#[cfg(feature = "config")]
use crate::config::HttpConfig;
use crate::http_settings::TrustProxy;
use crate::net::truncate_address;
use header_lists::{forwarded_addresses, listed_addresses};
pub use warning::{ForwardingWarning, UntrustedForwarding};

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Finds the address of a client.
///
/// It is the socket's peer, unless the operator trusts proxies. Then exactly one header is read:
/// - `x-forwarded-for`, the default, and `forwarded` (RFC 7239) are lists to which each proxy adds the address it got the
///   request from. They are read from the right, the side that the client does not write, up to the first address that
///   the operator does not trust.
/// - Any other, such as `cf-connecting-ip` or `x-real-ip`, is one address. If there are several, the last one counts.
///
/// An entry that is not an address ends the reading at the last one that was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientAddress {
    ipv6_prefix: u8,
    trust: TrustProxy,
    form: HeaderForm,
    header: HeaderName,
}

/// The form of a header's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HeaderForm {
    AddressList,
    Forwarded,
    SingleAddress,
}

impl Default for ClientAddress {
    fn default() -> Self {
        let (trust, header) = (TrustProxy::None, X_FORWARDED_FOR);
        ClientAddress { trust, header, form: HeaderForm::AddressList, ipv6_prefix: 64 }
    }
}

impl ClientAddress {
    /// Takes the socket's peer for the client, and believes no header.
    pub fn new() -> Self {
        Self::default()
    }

    /// Believes a header that the platform sets on every request, such as `cf-connecting-ip`, where the program can be
    /// reached through the platform only: one hop is trusted, whatever its address.
    pub fn set_by_platform(header: HeaderName) -> Self {
        Self::new().trust(TrustProxy::hops(1)).header(header)
    }

    /// Sets the trusted proxies. Defaults to none.
    #[must_use]
    pub fn trust(mut self, trust: TrustProxy) -> Self {
        self.trust = trust;
        self
    }

    /// Sets the one header that is read from a trusted peer. Defaults to `x-forwarded-for`.
    #[must_use]
    pub fn header(mut self, header: HeaderName) -> Self {
        self.form = if header == X_FORWARDED_FOR {
            HeaderForm::AddressList
        } else if header == FORWARDED {
            HeaderForm::Forwarded
        } else {
            HeaderForm::SingleAddress
        };
        self.header = header;
        self
    }

    /// Sets how many bits of an IPv6 address tell clients apart. Defaults to 64, the network that one customer usually
    /// has. With 0 all of IPv6 is one client; more than 128 is 128.
    #[must_use]
    pub fn ipv6_prefix(mut self, bits: u8) -> Self {
        self.ipv6_prefix = bits;
        self
    }

    /// The name of the one header that is read.
    pub fn header_name(&self) -> &HeaderName {
        &self.header
    }

    /// Whether the header of this peer is believed.
    #[inline]
    pub fn trusts(&self, peer: IpAddr) -> bool {
        is_trusted(&self.trust, 0, peer.to_canonical())
    }

    /// The peer itself as the client.
    fn client_at(&self, peer: IpAddr) -> Client {
        Client::new(peer, self.ipv6_prefix)
    }

    /// The client that sent a request with these headers over a connection from `peer`.
    #[inline]
    pub fn find(&self, peer: IpAddr, headers: &HeaderMap) -> Client {
        self.find_or(peer, headers, |_| ())
    }

    /// Finds the client as [`find`](Self::find) does, and [warns](ForwardingWarning) the operator of an unknown proxy: in
    /// the log, with the feature `tracing`. Without it the one warning is lost; see [`ForwardingWarning::notice`].
    #[inline]
    pub fn find_and_warn(&self, warning: &ForwardingWarning, peer: IpAddr, headers: &HeaderMap) -> Client {
        self.find_or(peer, headers, |peer| {
            if let Some(noticed) = warning.notice_from(peer, headers) {
                noticed.log();
            }
        })
    }

    #[inline]
    fn find_or(&self, peer: IpAddr, headers: &HeaderMap, untrusted: impl FnOnce(IpAddr)) -> Client {
        let peer = peer.to_canonical();
        if !is_trusted(&self.trust, 0, peer) {
            untrusted(peer);
            return self.client_at(peer);
        }
        self.find_in_lines(peer, headers.get_all(&self.header).iter().map(HeaderValue::as_bytes))
    }

    /// Finds the client in headers of another kind: `lines` are the values of [`header_name`](Self::header_name), in the
    /// order they came in. They may be any bytes, and are read from the right and no further than needed.
    pub fn find_in_lines<'a, L>(&self, peer: IpAddr, lines: L) -> Client
    where
        L: IntoIterator<Item = &'a [u8], IntoIter: DoubleEndedIterator>,
    {
        let peer = peer.to_canonical();
        let lines = lines.into_iter().rev();
        let address = match self.form {
            HeaderForm::AddressList => last_trusted(&self.trust, peer, lines.flat_map(listed_addresses)),
            HeaderForm::Forwarded => last_trusted(&self.trust, peer, lines.flat_map(forwarded_addresses)),
            // The header means the client, not a proxy to look behind.
            HeaderForm::SingleAddress => last_trusted(&self.trust, peer, lines.flat_map(listed_addresses).take(1)),
        };
        self.client_at(address)
    }
}

/// Whether an address is trusted to say where it got the request from, so many hops from us: the peer is 0.
#[inline]
fn is_trusted(trust: &TrustProxy, hop: usize, address: IpAddr) -> bool {
    match trust {
        TrustProxy::None => false,
        TrustProxy::Hops(hops) => hop < usize::from(hops.get()),
        TrustProxy::Networks(networks) => networks.iter().any(|network| network.contains(address)),
    }
}

/// The last address that a trusted one vouches for. `before` are those in front of the peer, the nearest first; a malformed
/// one ends the search, because the ones in front of it cannot be interpreted.
fn last_trusted(trust: &TrustProxy, peer: IpAddr, mut before: impl Iterator<Item = Option<IpAddr>>) -> IpAddr {
    let (mut found, mut hop) = (peer, 0);
    // Trust comes first: headers of an untrusted peer are not even read.
    while is_trusted(trust, hop, found)
        && let Some(Some(address)) = before.next()
    {
        found = address;
        hop += 1;
    }
    found
}

#[cfg(feature = "config")]
impl From<&HttpConfig> for ClientAddress {
    fn from(http: &HttpConfig) -> Self {
        let address = ClientAddress::new().trust(http.trust_proxy.clone()).ipv6_prefix(http.ipv6_prefix);
        // The config's parser accepts header names only, but code can set the field to anything.
        match HeaderName::from_bytes(http.client_header.as_bytes()) {
            Ok(header) => address.header(header),
            Err(_) => address.trust(TrustProxy::None),
        }
    }
}

/// A client: its address, and the key it is counted under.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Client {
    address: IpAddr,
    ipv6_prefix: u8,
}

impl Client {
    fn new(address: IpAddr, ipv6_prefix: u8) -> Self {
        Client { address, ipv6_prefix }
    }

    /// The whole address, for deny lists and logs. IPv4 in IPv6 is IPv4.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// The key of the client: a whole address, or a network such as `2001:db8::/64`, because an IPv6 client can have a new
    /// address for every request.
    ///
    /// Deny lists use the client's [`address`](Self::address), because a network is less than that.
    #[inline]
    pub fn key(&self) -> Key<'static> {
        match self.address {
            IpAddr::V4(address) => Key::from(address),
            IpAddr::V6(_) => Key::from_parts([&*self.text()]),
        }
    }

    /// The text of the [`key`](Self::key), for keys of several parts.
    ///
    /// ```
    /// # use tidegate::{Key, http::{ClientAddress, HeaderMap}};
    /// # let (peer, headers) = ("2001:db8::17".parse()?, HeaderMap::new());
    /// let client = ClientAddress::new().find(peer, &headers);
    /// let key = Key::from(("login", &*client.text()));
    /// assert_eq!(key.to_text(), "login|2001:db8::/64");
    /// # Ok::<(), std::net::AddrParseError>(())
    /// ```
    pub fn text(&self) -> ClientText {
        let mut text = ClientText { len: 0, bytes: [0; MAX_TEXT_LEN] };
        let written = match self.address {
            IpAddr::V6(_) if self.ipv6_prefix < 128 => {
                write!(text, "{}/{}", truncate_address(self.address, self.ipv6_prefix), self.ipv6_prefix)
            }
            whole => write!(text, "{whole}"),
        };
        written.expect("no address is longer");
        text
    }
}

/// Eight groups of four digits with seven colons, a slash and three digits.
const MAX_TEXT_LEN: usize = 43;

/// The text of a client's key. Dereferences to `str`.
#[derive(Clone, Copy)]
pub struct ClientText {
    len: usize,
    bytes: [u8; MAX_TEXT_LEN],
}

impl Deref for ClientText {
    type Target = str;

    fn deref(&self) -> &str {
        str::from_utf8(&self.bytes[..self.len]).expect("written from whole texts")
    }
}

impl AsRef<str> for ClientText {
    fn as_ref(&self) -> &str {
        self
    }
}

impl fmt::Debug for ClientText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl fmt::Display for ClientText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self)
    }
}

/// A buffer of its own, because a `String` would be an allocation for every request.
impl Write for ClientText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.len + text.len();
        self.bytes.get_mut(self.len..end).ok_or(fmt::Error)?.copy_from_slice(text.as_bytes());
        self.len = end;
        Ok(())
    }
}
