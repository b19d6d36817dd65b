//! The message router over real sockets, with tokio-tungstenite as the client.

mod bad_clients;
mod calls;
mod connections;
mod events;
mod limits;
mod pipeline;
mod redis;
mod support;
mod topics;
#[cfg(feature = "tracing")]
mod warning;
#[cfg(feature = "tracing")]
#[path = "../common/warnings.rs"]
mod warnings;
