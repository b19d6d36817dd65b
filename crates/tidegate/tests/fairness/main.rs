//! Tenants that share, and callers that hold back, promise by promise, on a clock that only moves when it is told to.

#[path = "../common/crowd.rs"]
mod common_crowd;
mod crowd;
mod model;
mod random;
mod sharing;
mod steady;
mod threads;
mod throttle;
mod waiting;
