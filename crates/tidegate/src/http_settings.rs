//! HTTP settings that configs contain and transports use: trusted proxies and header styles.

use std::num::NonZeroU8;

use crate::net::{Network, NetworkError};

/// The proxies that may name the client's address.
///
/// A trusted proxy can claim any address. So trust exactly the proxies that are in front of the program.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum TrustProxy {
    /// None: the client is the peer.
    #[default]
    None,
    /// This many last hops, at any address. Only for a port that nothing but the proxies can reach.
    Hops(NonZeroU8),
    /// Peers in these networks.
    Networks(Vec<Network>),
}

impl TrustProxy {
    /// Trusts the last `hops` hops, or none for 0.
    pub const fn hops(hops: u8) -> Self {
        match NonZeroU8::new(hops) {
            Some(hops) => TrustProxy::Hops(hops),
            None => TrustProxy::None,
        }
    }

    /// Trusts peers in these networks, such as `["10.0.0.0/8", "::1"]`.
    pub fn networks<N: AsRef<str>>(networks: impl IntoIterator<Item = N>) -> Result<Self, NetworkError> {
        let networks = networks.into_iter().map(|network| network.as_ref().parse());
        networks.collect::<Result<_, _>>().map(TrustProxy::Networks)
    }
}

/// A family of response headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeaderStyle {
    /// `RateLimit` and `RateLimit-Policy`, as in the IETF's current draft.
    Ietf,
    /// `RateLimit-Limit`, `RateLimit-Remaining` and `RateLimit-Reset`, as in draft 03.
    Draft03,
    /// `X-RateLimit-*`.
    Legacy,
}

/// The unit of `X-RateLimit-Reset`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LegacyReset {
    /// Seconds from now.
    #[default]
    Delta,
    /// Seconds since the epoch.
    Epoch,
}
