//! Real servers on loopback, for the tests and benches to talk to and to break: started as child processes with a port
//! and a folder of their own, and gone with the value that stands for them.
//!
//! Where the programs are is for the caller to say; `cargo xtask` gets them.
#![forbid(unsafe_code)]

#[cfg(feature = "browser")]
pub mod browser;
mod cargo;
mod disk;
mod door;
mod envoy;
mod folder;
mod pgbouncer;
mod ports;
mod postgres;
mod process;
mod program;
mod redis;
mod signal;
mod user;
mod variable;
mod wait;
mod workerd;

pub use cargo::{build_programs, cargo, program};
pub use disk::{Rights, on_a_small_disk};
pub use door::Door;
pub use envoy::Envoy;
pub use folder::remove_leftovers;
pub use pgbouncer::PgBouncer;
pub use ports::free_port;
pub use postgres::Postgres;
pub use program::Program;
pub use redis::Redis;
pub use signal::signal;
pub use variable::variable;
pub use wait::wait_until;
pub use workerd::{Storage, Workerd};
