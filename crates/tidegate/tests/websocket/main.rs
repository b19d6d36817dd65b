//! Tests of the WebSocket router over real sockets, with tokio-tungstenite as the client.

mod bad_clients;
mod connections;
mod events;
mod limits;
mod pipeline;
#[cfg(feature = "_real-servers")]
mod redis;
mod rpcs;
mod support;
mod topics;
#[cfg(feature = "tracing")]
mod warning;
#[cfg(feature = "tracing")]
#[path = "../common/warnings.rs"]
mod warnings;
