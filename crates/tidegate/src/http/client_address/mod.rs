//! The address of a client, which no client can forge.

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

/// Finds the address of a client, in a way that no client can forge.
///
/// The address is the socket's peer, except when the operator trusts proxies. Then exactly one header is read:
/// - `x-forwarded-for`, the default, and `forwarded` (RFC 7239) are lists. Each proxy appends the address from which it
///   received the request. They are read from the right, the side that the client cannot write, up to the first
///   untrusted address.
/// - Any other header, such as `cf-connecting-ip` or `x-real-ip`, is one address. Of several, the last one counts.
///
/// An entry that is not an address ends the search. The result is the last valid address before it.
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
    /// Creates the rule that the socket's peer is the client. It trusts no header.
    pub fn new() -> Self {
        Self::default()
    }

    /// Trusts a header that the platform sets on every request, such as `cf-connecting-ip`. Use it only if clients
    /// cannot reach the program without the platform: one hop of any address is trusted.
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

    /// Sets the number of bits that identify an IPv6 client. Defaults to 64, the usual network of one customer. With 0,
    /// all of IPv6 is one client; more than 128 counts as 128.
    #[must_use]
    pub fn ipv6_prefix(mut self, bits: u8) -> Self {
        self.ipv6_prefix = bits;
        self
    }

    /// Returns the name of the one header that is read.
    pub fn header_name(&self) -> &HeaderName {
        &self.header
    }

    /// Returns whether the header of this peer is trusted.
    #[inline]
    pub fn trusts(&self, peer: IpAddr) -> bool {
        is_trusted(&self.trust, 0, peer.to_canonical())
    }

    /// Returns the peer as the client.
    fn client_at(&self, peer: IpAddr) -> Client {
        Client::new(peer, self.ipv6_prefix)
    }

    /// Returns the client that sent a request with these headers over a connection from `peer`.
    #[inline]
    pub fn find(&self, peer: IpAddr, headers: &HeaderMap) -> Client {
        self.find_or(peer, headers, |_| ())
    }

    /// Finds the client as [`find`](Self::find) does, and [warns](ForwardingWarning) the operator of an untrusted
    /// proxy. The warning is logged with the feature `tracing`, and lost without it; see [`ForwardingWarning::notice`].
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

    /// Finds the client in another type of headers. `lines` are the values of [`header_name`](Self::header_name) in
    /// order of arrival. They may be any bytes, and are read from the right only as far as needed.
    pub fn find_in_lines<'a, L>(&self, peer: IpAddr, lines: L) -> Client
    where
        L: IntoIterator<Item = &'a [u8], IntoIter: DoubleEndedIterator>,
    {
        let peer = peer.to_canonical();
        let lines = lines.into_iter().rev();
        let address = match self.form {
            HeaderForm::AddressList => last_trusted(&self.trust, peer, lines.flat_map(listed_addresses)),
            HeaderForm::Forwarded => last_trusted(&self.trust, peer, lines.flat_map(forwarded_addresses)),
            // The header has the client itself, and no proxy in front of it.
            HeaderForm::SingleAddress => last_trusted(&self.trust, peer, lines.flat_map(listed_addresses).take(1)),
        };
        self.client_at(address)
    }
}

/// Returns whether an address at that hop is trusted to name the sender of the request. The peer is hop 0.
#[inline]
fn is_trusted(trust: &TrustProxy, hop: usize, address: IpAddr) -> bool {
    match trust {
        TrustProxy::None => false,
        TrustProxy::Hops(hops) => hop < usize::from(hops.get()),
        TrustProxy::Networks(networks) => networks.iter().any(|network| network.contains(address)),
    }
}

/// Returns the last address that a trusted address names. `before` are the addresses in front of the peer, the nearest
/// first. A malformed one ends the search, because earlier ones cannot be interpreted.
fn last_trusted(trust: &TrustProxy, peer: IpAddr, mut before: impl Iterator<Item = Option<IpAddr>>) -> IpAddr {
    let (mut found, mut hop) = (peer, 0);
    // The trust check comes first, so headers of an untrusted peer are never read.
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
        // The config's parser accepts header names only, but code can set the field to any text.
        match HeaderName::from_bytes(http.client_header.as_bytes()) {
            Ok(header) => address.header(header),
            Err(_) => address.trust(TrustProxy::None),
        }
    }
}

/// A client: its address and its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Client {
    address: IpAddr,
    ipv6_prefix: u8,
}

impl Client {
    fn new(address: IpAddr, ipv6_prefix: u8) -> Self {
        Client { address, ipv6_prefix }
    }

    /// Returns the whole address, for deny lists and logs. IPv4 in IPv6 is converted to IPv4.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// Returns the key of the client: a whole IPv4 address, or an IPv6 network such as `2001:db8::/64`. An IPv6 client
    /// can have a new address for every request.
    ///
    /// Deny lists use the client's whole [`address`](Self::address).
    #[inline]
    pub fn key(&self) -> Key<'static> {
        match self.address {
            IpAddr::V4(address) => Key::from(address),
            IpAddr::V6(_) => Key::from_parts([&*self.text()]),
        }
    }

    /// Returns the text of the [`key`](Self::key), for keys of several parts.
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

/// The length of eight groups of four digits, seven colons, a slash and three digits.
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

/// A fixed buffer, because a `String` would be an allocation for every request.
impl Write for ClientText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.len + text.len();
        self.bytes.get_mut(self.len..end).ok_or(fmt::Error)?.copy_from_slice(text.as_bytes());
        self.len = end;
        Ok(())
    }
}
