//! How many at once, promise by promise.

mod admission;
mod hints;
mod keyed;
mod permits;
mod priorities;
