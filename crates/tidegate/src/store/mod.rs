//! The stores: where the state of keys lives.

#[cfg(feature = "tokio")]
pub(crate) mod leased;
pub(crate) mod memory;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(feature = "remote")]
pub mod remote;
#[cfg(feature = "redis")]
pub(crate) mod rendezvous;
#[cfg(any(feature = "redis", feature = "sqlite", feature = "postgres"))]
mod secret;
#[cfg(feature = "sqlite")]
pub mod sqlite;
#[cfg_attr(not(feature = "stored"), allow(unreachable_pub, reason = "what is public there is so with that feature"))]
pub(crate) mod stored;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod table;
#[cfg(feature = "redis")]
pub(crate) mod together;
