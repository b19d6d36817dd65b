//! How many at once, promise by promise.

mod adaptive;
mod admission;
mod budget;
mod hints;
mod keyed;
mod permits;
mod priorities;
#[cfg(feature = "tokio")]
mod shared;
