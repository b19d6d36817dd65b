//! Who asks.

use std::net::IpAddr;

use tidegate_core::Key;

/// Who asks: a key for all limits of an enforcer or one for each, and an address for their deny lists.
#[derive(Debug, Clone)]
pub struct Caller<'a> {
    keys: Keys<'a>,
    address: Option<IpAddr>,
}

#[derive(Debug, Clone)]
enum Keys<'a> {
    Same(Key<'a>),
    Each(Vec<Key<'a>>),
}

impl<'a> Caller<'a> {
    /// Who is known by the same key to every limit.
    pub fn new(key: impl Into<Key<'a>>) -> Self {
        Caller::of(key.into(), None)
    }

    /// Who is known by a key of its own to each limit, in the order in which the enforcer has them.
    pub fn each(keys: impl Into<Vec<Key<'a>>>) -> Self {
        Caller::of_each(keys.into(), None)
    }

    #[inline]
    pub(crate) fn of(key: Key<'a>, address: Option<IpAddr>) -> Self {
        Caller { keys: Keys::Same(key), address }
    }

    pub(crate) fn of_each(keys: Vec<Key<'a>>, address: Option<IpAddr>) -> Self {
        Caller { keys: Keys::Each(keys), address }
    }

    /// The whole address, which deny lists look at beside the key.
    #[must_use]
    pub fn with_address(mut self, address: IpAddr) -> Self {
        self.address = Some(address);
        self
    }

    /// The key for the limit at that place.
    pub fn key(&self, index: usize) -> Option<&Key<'a>> {
        match &self.keys {
            Keys::Same(key) => Some(key),
            Keys::Each(keys) => keys.get(index),
        }
    }

    /// The whole address, if it is known.
    pub fn address(&self) -> Option<&IpAddr> {
        self.address.as_ref()
    }

    /// Whether there is a key for each of so many limits, and no other.
    pub(super) fn fits(&self, limits: usize) -> bool {
        match &self.keys {
            Keys::Same(_) => true,
            Keys::Each(keys) => keys.len() == limits,
        }
    }
}
