//! A load generator for Tidegate servers: the HTTP API, Envoy's gRPC protocol and the Redis protocol, with an open or a
//! closed loop.
//!
//! [`LoadTest`] is the configuration, [`LoadTest::run`] puts the load on the servers, and the [`Report`] has the figures
//! and the chart. `tidegate bench` is its command line.
#![forbid(unsafe_code)]

mod chart;
mod client;
mod keys;
mod report;
mod run;
mod schedule;
mod tally;
mod target;
mod worker;

pub use keys::KeyDistribution;
pub use report::Report;
pub use run::{LoadTest, Progress};
pub use target::{Protocol, Target};

/// The error of a load test that cannot run: its cause, and the next step.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct LoadError(pub(crate) String);
