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

    #[doc = include_str!("../../docs/http.md")]
    mod http {}

    #[doc = include_str!("../../docs/frameworks.md")]
    mod frameworks {}

    #[doc = include_str!("../../docs/websockets.md")]
    mod websockets {}

    #[doc = include_str!("../../docs/admission.md")]
    mod admission {}

    #[doc = include_str!("../../docs/concurrency.md")]
    mod concurrency {}

    #[doc = include_str!("../../docs/fairness.md")]
    mod fairness {}

    #[doc = include_str!("../../docs/redis.md")]
    mod redis {}

    #[doc = include_str!("../../docs/two-tier.md")]
    mod two_tier {}

    #[doc = include_str!("../../docs/postgres.md")]
    mod postgres {}

    #[doc = include_str!("../../docs/sqlite.md")]
    mod sqlite {}

    #[doc = include_str!("../../docs/remote.md")]
    mod remote {}

    #[doc = include_str!("../../docs/workers.md")]
    mod workers {}

    #[doc = include_str!("../../docs/clients.md")]
    mod clients {}

    #[doc = include_str!("../../docs/config.md")]
    mod config {}

    #[doc = include_str!("../../docs/envoy-config.md")]
    mod envoy_config {}

    #[doc = include_str!("../../docs/choosing-an-algorithm.md")]
    mod choosing_an_algorithm {}
}
