//! The explicit testing entry: time passed in.

use std::future::Future;

use super::{Request, Store, StoreError};
use crate::{Decision, JointDecision, Timestamp};

/// A store that tests can replay a trace through, with their own time.
///
/// Not for production, where only the store reads a clock. A state written through this entry gets no lifetime that
/// runs in real time.
pub trait Testing: Store {
    /// [`Store::apply`] at the time `at`.
    fn apply_at(
        &self,
        request: &Request<'_>,
        at: Timestamp,
    ) -> impl Future<Output = Result<Decision, StoreError>> + Send;

    /// [`Store::apply_all`] at the time `at`.
    fn apply_all_at(
        &self,
        requests: &[Request<'_>],
        at: Timestamp,
    ) -> impl Future<Output = Result<JointDecision, StoreError>> + Send;

    /// Forgets what is as good as new at `at`, and says how many keys the store still holds; none when this store
    /// cannot tell.
    fn held_at(&self, at: Timestamp) -> impl Future<Output = Option<usize>> + Send;
}
