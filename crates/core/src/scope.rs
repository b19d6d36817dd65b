//! The scope of a limit: the namespace of its keys in a store.

use std::sync::Arc;

use crate::Key;
use crate::hash::stable_hash;

/// The namespace of one limit's keys in a store: the limiter's prefix and the limit's name.
///
/// Limiters with different prefixes, and limits with different names, never share keys in a store.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Scope {
    prefix: Box<str>,
    limit: Box<str>,
    text: Arc<str>,
    hash: u64,
}

impl Scope {
    /// Creates the scope of the limit `limit` under `prefix`, which may be empty.
    pub fn new(prefix: &str, limit: &str) -> Self {
        let text: Arc<str> = Key::from((prefix, limit)).to_text().into();
        Scope { prefix: prefix.into(), limit: limit.into(), hash: stable_hash(0, text.as_bytes()), text }
    }

    /// Returns the limiter's prefix.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Returns the limit's name.
    pub fn limit(&self) -> &str {
        &self.limit
    }

    /// Returns prefix and limit as one escaped text that no other scope has.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns whether both have the same text. Clones compare without reading it.
    #[inline]
    pub fn is_same(&self, other: &Scope) -> bool {
        Arc::ptr_eq(&self.text, &other.text) || self.text == other.text
    }

    /// Returns a stable hash of [`Scope::as_str`], computed once.
    #[inline]
    pub fn stable_hash(&self) -> u64 {
        self.hash
    }
}
