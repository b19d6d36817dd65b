//! Tests of concurrency limits, admission and budgets.

#[cfg(feature = "tokio")]
#[path = "../common/waiting_store.rs"]
mod waiting_store;

mod adaptive;
mod admission;
mod budget;
#[cfg(all(feature = "metrics", feature = "tokio"))]
mod budget_streams;
mod budget_tokens;
#[cfg(feature = "tokio")]
mod distributed;
#[cfg(feature = "tokio")]
mod outages;
mod per_key;
mod permits;
mod priorities;
mod retry_hints;
#[cfg(feature = "tokio")]
mod unsteady_store;
