//! Stores and the wrappers around them while the servers break: each fault is a test, on servers of its own.
//!
//! `cargo xtask test` gets them; by hand, `cargo xtask servers` does, and says what to export.

mod load;
mod postgres_store;
mod redis_store;
mod stalls;
mod support;
