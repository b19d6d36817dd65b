//! Names the tests that `cargo test` leaves out, because they need programs that `cargo xtask test` gets and starts.

tidegate_servers::left_out! {
    simulate_and_serve_on_stores: "Redis, Valkey and Postgres",
    clients_of_the_redis_protocol: "redis-cli, redis-py and ioredis",
    dashboard_in_a_browser: "Chromium",
    metrics_read_by_prometheus: "Prometheus's Python client",
    behind_envoy: "Envoy",
    equal_responses_of_worker_and_server: "workerd",
}
