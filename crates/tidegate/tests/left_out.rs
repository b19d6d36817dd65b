//! Declares the tests that `cargo test` leaves out. They need programs that `cargo xtask test` installs and starts.
#![cfg(not(feature = "_real-servers"))]

tidegate_servers::left_out! {
    attribute: "needs the feature macros: run `cargo xtask test`, or `cargo test --package tidegate --features macros`",
    redis: "needs Redis, Valkey and a cluster of Redis: run `cargo xtask test`",
    postgres: "needs Postgres and PgBouncer: run `cargo xtask test`",
    faults: "needs Redis and Postgres servers of its own, to break: run `cargo xtask test`",
    websocket_kit: "needs Node.js and ws-kit: run `cargo xtask test`",
    websockets_on_redis: "needs Redis: run `cargo xtask test`",
    other_frameworks: "needs the adapter crates: run `cargo xtask test`, or `cargo test --workspace`",
    workers: "needs workerd: run `cargo xtask test`",
    sqlite_on_full_and_read_only_disks: "needs root, or user namespaces: run `cargo xtask test`",
}
