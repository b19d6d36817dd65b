//! The caller of a request: its keys and its address.

use std::net::IpAddr;

use tidegate_core::Key;

/// The caller of a request: one key for all limits of an enforcer or one for each, and an address for deny lists.
#[derive(Debug, Clone)]
pub struct Caller<'a> {
    keys: CallerKeys<'a>,
    address: Option<IpAddr>,
}

#[derive(Debug, Clone)]
enum CallerKeys<'a> {
    Common(Key<'a>),
    PerLimit(Vec<Key<'a>>),
}

impl<'a> Caller<'a> {
    /// Returns a caller with one key for every limit.
    pub fn new(key: impl Into<Key<'a>>) -> Self {
        Caller::from_key(key.into(), None)
    }

    /// Returns a caller with one key for each limit, in the order in which the enforcer has them.
    pub fn with_keys(keys: impl Into<Vec<Key<'a>>>) -> Self {
        Caller::from_keys(keys.into(), None)
    }

    #[inline]
    pub(crate) fn from_key(key: Key<'a>, address: Option<IpAddr>) -> Self {
        Caller { keys: CallerKeys::Common(key), address }
    }

    pub(crate) fn from_keys(keys: Vec<Key<'a>>, address: Option<IpAddr>) -> Self {
        Caller { keys: CallerKeys::PerLimit(keys), address }
    }

    /// Sets the whole client address, which deny lists match in addition to the key.
    #[must_use]
    pub fn with_address(mut self, address: IpAddr) -> Self {
        self.address = Some(address);
        self
    }

    /// Returns the key for the limit at that index.
    pub fn key(&self, index: usize) -> Option<&Key<'a>> {
        match &self.keys {
            CallerKeys::Common(key) => Some(key),
            CallerKeys::PerLimit(keys) => keys.get(index),
        }
    }

    /// Returns the whole address, if it is known.
    pub fn address(&self) -> Option<&IpAddr> {
        self.address.as_ref()
    }

    /// Returns whether there is one key for each of `limits`, and no other.
    pub(super) fn has_keys_for(&self, limits: usize) -> bool {
        match &self.keys {
            CallerKeys::Common(_) => true,
            CallerKeys::PerLimit(keys) => keys.len() == limits,
        }
    }
}
