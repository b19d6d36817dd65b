//! From the peer towards the client, as far as the operator's trust goes.

use std::net::IpAddr;

use crate::trust::TrustProxy;

impl TrustProxy {
    /// Whether the word of this address is taken about who was before it, so many hops from us: the peer is 0.
    #[inline]
    pub(super) fn believes(&self, hop: usize, address: IpAddr) -> bool {
        match self {
            TrustProxy::Nobody => false,
            TrustProxy::Hops(hops) => hop < usize::from(hops.get()),
            TrustProxy::Networks(networks) => networks.iter().any(|network| network.contains(address)),
        }
    }

    /// The last address there is somebody's word for, who is believed. `before` are those in front of the peer, the
    /// nearest first; one that is malformed ends the walk, because nobody knows what was meant by those in front of it.
    pub(super) fn walk(&self, peer: IpAddr, mut before: impl Iterator<Item = Option<IpAddr>>) -> IpAddr {
        let (mut found, mut hop) = (peer, 0);
        // Trust is asked first: what an untrusted peer sends is not even read.
        while self.believes(hop, found)
            && let Some(Some(address)) = before.next()
        {
            found = address;
            hop += 1;
        }
        found
    }
}
