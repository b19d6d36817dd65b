//! Tests of `TwoTierStore` on a manual clock.

mod denials;
mod errors;
mod refills;
mod returns;
mod support;
mod unbatched;
