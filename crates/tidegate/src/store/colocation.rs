//! The choice of keys that live together, in a store over several servers or slots.

use tidegate_core::Scope;

/// The keys that live together, in one slot of a cluster or on one of several servers. Such keys can be taken all or
/// nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Colocation {
    /// No keys: each key goes where its own name puts it. This spreads keys most evenly.
    #[default]
    None,
    /// One key under all limits: a user's `login`, `send` and `upload`.
    Key,
    /// All keys under one prefix. They all live in one place.
    Prefix,
}

/// Returns the prefix of a scope in its escaped form.
pub(super) fn prefix(scope: &Scope) -> &str {
    // The limit's name is the last part, and the separator is escaped within parts.
    scope.as_str().rsplit_once('|').map_or("", |(prefix, _)| prefix)
}
