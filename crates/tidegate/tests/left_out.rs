//! Names the tests that `cargo test` leaves out, because they need programs that `cargo xtask test` gets and starts.
#![cfg(not(feature = "_real-servers"))]

tidegate_servers::left_out! {
    attribute: "the feature macros: `cargo test --package tidegate --features macros`, or",
    redis: "Redis, Valkey and a cluster of Redis",
    postgres: "Postgres and PgBouncer",
    faults: "Redis and Postgres servers of its own, to break",
    websocket_kit: "Node.js and ws-kit",
    websockets_on_redis: "Redis",
    other_frameworks: "the adapter crates: `cargo test --workspace`, or",
    workers: "workerd",
    sqlite_on_full_and_read_only_disks: "root, or user namespaces",
}
