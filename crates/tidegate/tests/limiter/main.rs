//! The limiter, promise by promise, on a clock that only moves when it is told to.

mod acquire;
mod all;
#[path = "../common/crowd.rs"]
mod common_crowd;
mod deny;
mod each;
mod leases;
mod lifecycle;
mod normalize;
mod regressions;
mod replace_all;
mod shadow;
mod shards;
mod support;
mod tiers;
mod waiting;
