//! HTTP semantics, promise by promise.

mod client;
