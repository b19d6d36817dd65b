//! The state of a key as bytes, for stores outside of this crate that keep values under names.
//!
//! ```
//! use tidegate::stored::{decode, encode};
//! use tidegate::store::{Op, State, step};
//! use tidegate::{Cost, Quota, Timestamp, seconds};
//!
//! let (quota, now) = (Quota::token_bucket(10, seconds(1))?, Timestamp::from_millis(1));
//! let mut state = State::New;
//! step(&quota, &mut state, Op::Limit(Cost::ONE), now);
//! assert_eq!(decode(&encode(&state, &quota), &quota)?, (quota, state));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[doc(hidden)]
pub use crate::store::codec::{JointRequest, RefundTimer, refund_failed};
pub use crate::store::codec::{decode, encode};
