//! Tests of the limiter on a manual clock.

mod acquire;
mod batch;
#[path = "../common/crowd.rs"]
mod common_crowd;
mod deny_lists;
mod joint;
mod leases;
mod lifecycle;
#[cfg(feature = "metrics")]
mod metrics;
mod normalize;
#[cfg(feature = "metrics")]
#[path = "../common/recorded.rs"]
mod recorded;
mod regressions;
mod replace_all;
mod shadow;
mod shards;
mod support;
mod tiers;
mod waiting;
