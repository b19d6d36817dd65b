//! Tests of `TwoTierStore` on a manual clock.

mod bound;
mod denials;
mod errors;
mod fleet;
mod refills;
mod returns;
mod support;
mod unbatched;
