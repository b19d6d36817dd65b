//! Declares the tests that `cargo test` leaves out. They need programs that `cargo xtask test` installs and starts.

tidegate_servers::left_out! {
    simulate_and_serve_on_stores: "needs Redis, Valkey and Postgres: run `cargo xtask test`",
    clients_of_the_redis_protocol: "needs redis-cli, redis-py and ioredis: run `cargo xtask test`",
    dashboard_in_a_browser: "needs Chromium: run `cargo xtask test`",
    pages_of_other_sites_in_a_browser: "needs Chromium: run `cargo xtask test`",
    alerts_in_prometheus: "needs Prometheus: run `cargo xtask test`",
    metrics_read_by_prometheus: "needs Prometheus's Python client: run `cargo xtask test`",
    behind_envoy: "needs Envoy: run `cargo xtask test`",
    equal_responses_of_worker_and_server: "needs workerd: run `cargo xtask test`",
}
