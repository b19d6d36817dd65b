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
}
