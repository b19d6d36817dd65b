//! tmp
#![forbid(unsafe_code)]

mod clock;
#[cfg(feature = "config")]
pub mod config;
mod limiter;
mod net;
mod store;

#[cfg(feature = "tokio")]
pub use clock::TokioSleeper;
pub use clock::{Clock, ManualClock, Sleeper, SystemClock};
pub use limiter::{
    BuildError, Call, CallFuture, Error, Limit, Limiter, LimiterBuilder, Normalize, ShardBy, UnknownLimit, Unsupported,
};
pub use net::{Network, NetworkError};
pub use store::memory::{MemoryStats, MemoryStore, MemoryStoreBuilder};
pub use tidegate_core::*;
