//! The real binary, as people meet it on the command line and clients on its ports.
// Tests of real servers use it all.
#![cfg_attr(not(feature = "_real-servers"), allow(dead_code, unused_imports))]

mod cli;
#[cfg(not(feature = "_real-servers"))]
mod left_out;
#[cfg(feature = "otlp")]
mod otlp;
mod serve;
