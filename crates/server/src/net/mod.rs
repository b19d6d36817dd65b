//! Ports and connections: listeners, TLS, shutdown, and HTTP connections that are bounded in size and time.

pub(crate) mod body;
pub(crate) mod buffer_budget;
pub(crate) mod charged_body;
mod header_timeout;
mod http_connection;
pub(crate) mod http_server;
mod inline_executor;
pub(crate) mod listener;
mod metered_stream;
pub(crate) mod shutdown;
mod stall_guard;
pub(crate) mod timeout_stream;
pub(crate) mod tls;
