//! The storage format of key states outside of this process, and code that such stores share.
//!
//! A state is a few whole numbers below 2^53, and the quota it was written under is a few bytes. A store on Redis
//! writes the numbers as Lua has them, one on Postgres as an array, and one on SQLite as bytes. A snapshot of the
//! memory store uses the same numbers. Their meaning is defined here, once.

#[cfg(any(feature = "redis", feature = "sqlite", feature = "postgres", feature = "stored"))]
mod joint;
mod quota;
#[cfg(any(feature = "redis", feature = "stored"))]
mod refunds;
#[cfg(any(feature = "redis", feature = "postgres"))]
mod server;
mod state;
#[cfg(any(feature = "sqlite", feature = "stored"))]
mod value;

#[cfg(any(feature = "redis", feature = "sqlite", feature = "postgres", feature = "stored"))]
pub use joint::JointRequest;
#[cfg(any(feature = "redis", feature = "sqlite", feature = "stored"))]
pub(super) use quota::split_value;
pub(super) use quota::{decode_quota, encode_quota};
#[cfg(any(feature = "redis", feature = "stored"))]
pub use refunds::{RefundTimer, refund_failed};
#[cfg(any(feature = "redis", feature = "postgres"))]
pub(super) use server::{
    LeaseOp, LeaseRequest, MAX_REBASE_ATTEMPTS, UnitDelta, check_agreement, contended, decide_by_key,
};
#[cfg(feature = "redis")]
pub(super) use state::LIMB_BASE;
#[cfg(feature = "postgres")]
pub(super) use state::lease_halves;
pub(super) use state::{F64_EXACT_LIMIT, state_from_numbers, state_to_numbers};
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
