//! Which keys live together, where a store has more than one place.

use tidegate_core::Scope;

/// Which keys live together: in one slot of a cluster, or on one of several servers. Keys that do can be taken all or
/// nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Colocation {
    /// Every key where its own name puts it: the evenest spread.
    #[default]
    Nothing,
    /// The same key under every limit: a user's `login`, `send` and `upload`.
    Key,
    /// Everything with one prefix. It all lives in one place.
    Prefix,
}

/// The prefix of a scope, as it is written there.
pub(super) fn prefix(scope: &Scope) -> &str {
    // The limit's name is the last part, and the separator is escaped within parts.
    scope.as_str().rsplit_once('|').map_or("", |(prefix, _)| prefix)
}
