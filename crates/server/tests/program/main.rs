//! The real binary, as people meet it on the command line and clients on its ports.

mod cli;
#[cfg(feature = "otlp")]
mod otlp;
mod serve;
