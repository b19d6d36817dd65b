//! Shared code of the examples, and the tested code in the documents.
#![forbid(unsafe_code)]

pub mod over_time;
pub mod overload;
mod svg;
pub mod window_edge;

#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../../README.md")]
    mod readme {}

    #[doc = include_str!("../../CONTRIBUTING.md")]
    mod contributing {}

    #[doc = include_str!("../../docs/book/src/how-to/http.md")]
    mod http {}

    #[doc = include_str!("../../docs/book/src/how-to/frameworks.md")]
    mod frameworks {}

    #[doc = include_str!("../../docs/book/src/how-to/websockets.md")]
    mod websockets {}

    #[doc = include_str!("../../docs/book/src/how-to/admission.md")]
    mod admission {}

    #[doc = include_str!("../../docs/book/src/explanation/concurrency.md")]
    mod concurrency {}

    #[doc = include_str!("../../docs/book/src/explanation/fairness.md")]
    mod fairness {}

    #[doc = include_str!("../../docs/book/src/reference/redis.md")]
    mod redis {}

    #[doc = include_str!("../../docs/book/src/explanation/two-tier.md")]
    mod two_tier {}

    #[doc = include_str!("../../docs/book/src/reference/postgres.md")]
    mod postgres {}

    #[doc = include_str!("../../docs/book/src/reference/sqlite.md")]
    mod sqlite {}

    #[doc = include_str!("../../docs/book/src/reference/remote.md")]
    mod remote {}

    #[doc = include_str!("../../docs/book/src/how-to/workers.md")]
    mod workers {}

    #[doc = include_str!("../../docs/book/src/explanation/clients.md")]
    mod clients {}

    #[doc = include_str!("../../docs/book/src/reference/config.md")]
    mod config {}

    #[doc = include_str!("../../docs/book/src/reference/envoy-config.md")]
    mod envoy_config {}

    #[doc = include_str!("../../docs/book/src/reference/choosing-an-algorithm.md")]
    mod choosing_an_algorithm {}

    #[doc = include_str!("../../docs/book/src/tutorials/axum.md")]
    mod tutorial_axum {}

    #[doc = include_str!("../../docs/book/src/tutorials/first-limit.md")]
    mod tutorial_first_limit {}

    #[doc = include_str!("../../docs/book/src/tutorials/redis-fleet.md")]
    mod tutorial_redis_fleet {}

    #[doc = include_str!("../../docs/book/src/how-to/behind-haproxy.md")]
    mod how_to_behind_haproxy {}

    #[doc = include_str!("../../docs/book/src/how-to/behind-nginx.md")]
    mod how_to_behind_nginx {}

    #[doc = include_str!("../../docs/book/src/how-to/by-user-tenant-route.md")]
    mod how_to_by_user_tenant_route {}

    #[doc = include_str!("../../docs/book/src/how-to/deny-lists.md")]
    mod how_to_deny_lists {}

    #[doc = include_str!("../../docs/book/src/how-to/dry-run.md")]
    mod how_to_dry_run {}

    #[doc = include_str!("../../docs/book/src/how-to/failed-logins.md")]
    mod how_to_failed_logins {}

    #[doc = include_str!("../../docs/book/src/how-to/graceful-shutdown.md")]
    mod how_to_graceful_shutdown {}

    #[doc = include_str!("../../docs/book/src/how-to/llm-token-budget.md")]
    mod how_to_llm_token_budget {}

    #[doc = include_str!("../../docs/book/src/how-to/metrics-exporter-prometheus.md")]
    mod how_to_metrics_exporter_prometheus {}

    #[doc = include_str!("../../docs/book/src/how-to/plans.md")]
    mod how_to_plans {}

    #[doc = include_str!("../../docs/book/src/how-to/sizing-the-memory-store.md")]
    mod how_to_sizing_the_memory_store {}

    #[doc = include_str!("../../docs/book/src/how-to/test-forged-headers.md")]
    mod how_to_test_forged_headers {}

    #[doc = include_str!("../../docs/book/src/how-to/test-with-a-manual-clock.md")]
    mod how_to_test_with_a_manual_clock {}

    #[doc = include_str!("../../docs/book/src/how-to/try-now.md")]
    mod how_to_try_now {}

    #[doc = include_str!("../../docs/book/src/how-to/websocket-authenticate.md")]
    mod how_to_websocket_authenticate {}

    #[doc = include_str!("../../docs/book/src/how-to/write-a-store.md")]
    mod how_to_write_a_store {}
}
