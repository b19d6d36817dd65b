//! The client that was found.

use std::fmt::{self, Write};
use std::net::IpAddr;
use std::ops::Deref;

use tidegate_core::Key;

use crate::net::cut;

/// The client that was found: who it is, and what it is counted under.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Client {
    address: IpAddr,
    ipv6_prefix: u8,
}

impl Client {
    pub(super) fn new(address: IpAddr, ipv6_prefix: u8) -> Self {
        Client { address, ipv6_prefix }
    }

    /// The whole address, which is what deny lists and logs want. IPv4 in IPv6 is IPv4.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// What the client is counted under: a whole address, or a network such as `2001:db8::/64`, because an IPv6 client
    /// can have a new address for every request.
    ///
    /// Deny lists know the client by its [`address`](Self::address), of which a network here has too little left.
    #[inline]
    pub fn key(&self) -> Key<'static> {
        match self.address {
            // The quickest way: this is what most requests are counted under.
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
        let mut text = ClientText { len: 0, bytes: [0; LONGEST] };
        let written = match self.address {
            IpAddr::V6(_) if self.ipv6_prefix < 128 => {
                write!(text, "{}/{}", cut(self.address, self.ipv6_prefix), self.ipv6_prefix)
            }
            whole => write!(text, "{whole}"),
        };
        written.expect("no address is longer");
        text
    }
}

/// Eight groups of four digits with seven colons, a slash and three digits.
const LONGEST: usize = 43;

/// What a client is counted under, as text. Dereferences to `str`.
#[derive(Clone, Copy)]
pub struct ClientText {
    len: usize,
    bytes: [u8; LONGEST],
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
