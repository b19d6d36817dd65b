//! Whose word about a client is taken: a setting that configs write and transports act on.

use std::num::NonZeroU8;

use crate::net::{Network, NetworkError};

/// Whose word about the client's address is believed.
///
/// Whoever is believed can make the client whoever it likes, so this is as much as the program has in front of it and
/// no more.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum TrustProxy {
    /// Nobody's: the client is the peer.
    #[default]
    Nobody,
    /// That of the last so many hops, whatever their addresses: for a port that nobody but the proxies can reach.
    Hops(NonZeroU8),
    /// That of peers in these networks.
    Networks(Vec<Network>),
}

impl TrustProxy {
    /// The last so many hops; with none, nobody.
    pub const fn hops(hops: u8) -> Self {
        match NonZeroU8::new(hops) {
            Some(hops) => TrustProxy::Hops(hops),
            None => TrustProxy::Nobody,
        }
    }

    /// Peers in these networks, such as `["10.0.0.0/8", "::1"]`; with none, nobody.
    pub fn networks<N: AsRef<str>>(networks: impl IntoIterator<Item = N>) -> Result<Self, NetworkError> {
        let networks = networks.into_iter().map(|network| network.as_ref().parse());
        networks.collect::<Result<_, _>>().map(TrustProxy::Networks)
    }
}
