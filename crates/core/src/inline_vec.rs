//! A list that is usually short.

use smallvec::SmallVec;

/// A list with place for four elements before it allocates, because a request seldom has more limits.
pub type InlineVec<T> = SmallVec<[T; 4]>;
