//! The Redis protocol: any Redis client can ask, and pipelines are the fast path.

mod commands;
mod common;
mod connection;
mod parse;
mod question;
mod refusal;
mod reply;
mod session;

use std::sync::Arc;

use super::auth::Token;
use super::gate::Gate;
use super::port::Port;
use super::shutdown::Shutdown;
use common::Common;

/// Answers commands on `port` until it ends, and those that were sent by then.
pub(crate) async fn serve(port: Port, gate: Arc<Gate>, token: Option<Token>, shutdown: Shutdown) {
    let common = Arc::new(Common::new(gate, token));
    let ending = shutdown.clone();
    port.run(shutdown, move |stream, peer| connection::serve(stream, peer, Arc::clone(&common), ending.clone())).await;
}

#[cfg(test)]
mod tests;
