//! The Redis store and the wrappers around it while the servers break: each fault is a test, on servers of its own.
//!
//! `cargo xtask test` gets them; by hand, `cargo xtask servers` does, and says what to export.

mod clock;
mod cluster;
mod load;
mod scripts;
mod server;
mod single;
mod stored;
mod support;
