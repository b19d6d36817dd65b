//! Real servers on loopback for tests and benches.
//!
//! Each is a child process with a port and a folder of its own. Dropping its value ends it.
//!
//! The caller passes the paths of the programs; `cargo xtask` installs them.
#![forbid(unsafe_code)]

#[cfg(feature = "browser")]
pub mod browser;
mod cargo;
mod disk;
mod envoy;
mod pgbouncer;
mod postgres;
mod process;
mod program;
mod prometheus;
mod redis;
mod stalling_proxy;
mod temp_folder;
mod user;
mod workerd;

pub use cargo::{build_programs, cargo, program};
pub use disk::{DiskRights, run_on_small_disk};
pub use envoy::Envoy;
pub use pgbouncer::PgBouncer;
pub use postgres::Postgres;
pub use process::{free_port, signal, wait_until};
pub use program::Program;
pub use prometheus::Prometheus;
pub use redis::{Redis, SlotMove};
pub use stalling_proxy::StallingProxy;
pub use temp_folder::remove_leftovers;
pub use workerd::{Workerd, WorkerdStorage};

/// Declares tests that a run without servers leaves out. Each is reported as ignored with its reason, and fails when it
/// is run anyway.
#[macro_export]
macro_rules! left_out {
    ($($tests:ident: $reason:literal),* $(,)?) => {$(
        #[test]
        #[ignore = $reason]
        fn $tests() {
            panic!("these tests run in `cargo xtask test`");
        }
    )*};
}

/// Returns the value of an environment variable that `cargo xtask servers` prints.
///
/// # Panics
///
/// If it is not set: a test must not pass because its server is missing.
pub fn required_env(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| {
        panic!("{name} is not set: run `cargo xtask test` or `cargo xtask bench`, or `cargo xtask servers` and export what it prints")
    })
}
