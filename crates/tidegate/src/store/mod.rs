//! The stores: where the state of keys lives.

pub(crate) mod memory;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(feature = "redis")]
pub(crate) mod rendezvous;
#[cfg(feature = "redis")]
mod secret;
#[cfg(feature = "redis")]
mod stored;
#[cfg(feature = "redis")]
pub(crate) mod together;
