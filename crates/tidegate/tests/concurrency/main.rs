//! Concurrency limits, admission and budgets, promise by promise.

mod adaptive;
mod admission;
mod budget;
#[cfg(feature = "tokio")]
mod distributed;
mod per_key;
mod permits;
mod priorities;
mod retry_hints;
