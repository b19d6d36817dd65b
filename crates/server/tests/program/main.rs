//! Tests of the real binary: its command line and its ports.
// Only tests of real servers use all of it.
#![cfg_attr(not(feature = "_real-servers"), allow(dead_code, unused_imports))]

mod cli;
#[cfg(not(feature = "_real-servers"))]
mod left_out;
#[cfg(feature = "otlp")]
mod otlp;
mod serve;
