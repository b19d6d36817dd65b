//! Tests of `FairConcurrency` and `AdaptiveThrottle` on a manual clock.

mod adaptive_throttle;
#[path = "../common/crowd.rs"]
mod common_crowd;
mod crowd;
mod model;
mod random;
mod sharing;
mod steady;
mod threads;
mod waiting;
