//! Stores and the wrappers around them while the servers break: each fault is a test, on servers of its own.
//!
//! `cargo xtask test` gets them; by hand, `cargo xtask servers` does, and says what to export.

mod load;
mod on_postgres;
mod on_redis;
mod stalls;
mod support;
