//! What is kept of a key outside of this process, and how a store there is told what to do with it.
//!
//! A state is a few whole numbers below 2^53, and the quota it was written under is a few bytes: a store on Redis writes
//! them as Lua has numbers, one on Postgres as an array, one on SQLite as bytes, and so does a snapshot of the memory
//! store. What they mean is said here, once.

#[cfg(any(feature = "redis", feature = "sqlite", feature = "postgres", feature = "stored"))]
mod asked;
#[cfg(any(feature = "redis", feature = "postgres"))]
mod each;
#[cfg(any(feature = "redis", feature = "postgres"))]
mod leases;
mod quota;
#[cfg(any(feature = "redis", feature = "stored"))]
mod refunds;
mod state;
#[cfg(any(feature = "redis", feature = "postgres"))]
mod taking;
#[cfg(any(feature = "sqlite", feature = "stored"))]
mod value;

#[cfg(any(feature = "redis", feature = "sqlite", feature = "postgres", feature = "stored"))]
pub use asked::Asked;
#[cfg(any(feature = "redis", feature = "postgres"))]
pub(super) use each::each;
#[cfg(any(feature = "redis", feature = "postgres"))]
pub(super) use leases::{LeaseOp, PendingRequest};
#[cfg(any(feature = "redis", feature = "sqlite", feature = "stored"))]
pub(super) use quota::split;
pub(super) use quota::{quota_bytes, read_quota};
#[cfg(any(feature = "redis", feature = "stored"))]
pub use refunds::{Begun, not_given_back};
#[cfg(feature = "redis")]
pub(super) use state::LIMB;
#[cfg(feature = "postgres")]
pub(super) use state::halves;
pub(super) use state::{NARROW, numbers, state};
#[cfg(any(feature = "redis", feature = "postgres"))]
pub(super) use taking::Taking;
#[cfg(any(feature = "sqlite", feature = "stored"))]
pub use value::{decode, encode};

use std::time::Duration;

use tidegate_core::{StoreError, StoreErrorKind};

pub(super) fn micros(span: Duration) -> u64 {
    span.as_micros() as u64
}

pub(super) fn corrupt(why: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Corrupt, format!("a value under our key is not ours: {why}"))
}

#[cfg(any(feature = "redis", feature = "sqlite", feature = "postgres", feature = "stored"))]
pub(super) fn unsupported(message: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Unsupported, message)
}

/// What is stored and what the core makes of it do not go together.
#[cfg(any(feature = "redis", feature = "postgres"))]
pub(super) fn agreed(core: bool, server: bool) -> Result<(), StoreError> {
    if core == server {
        return Ok(());
    }
    let why = "the server and the core do not agree on the decision: what is stored is damaged";
    Err(StoreError::new(StoreErrorKind::Corrupt, why))
}

/// How often a state that was written under another quota is carried over before giving up: each time somebody with a
/// third quota was quicker.
#[cfg(any(feature = "redis", feature = "postgres"))]
pub(super) const ATTEMPTS: usize = 8;

#[cfg(any(feature = "redis", feature = "postgres"))]
pub(super) fn changing() -> StoreError {
    let why = "the key is asked for under other quotas all the time, faster than it can be carried over";
    StoreError::new(StoreErrorKind::Contended, why)
}
