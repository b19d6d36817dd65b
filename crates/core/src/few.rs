//! As many as a request has limits.

use smallvec::SmallVec;

/// As many as a request has limits: up to four are kept in place, and more than that on the heap.
pub type Few<T> = SmallVec<[T; 4]>;
