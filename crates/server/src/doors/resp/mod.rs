//! The Redis protocol server: any Redis client can send requests, and pipelines are the fast path.

mod commands;
mod connection;
mod parse;
mod reply;
mod request;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate::api::BearerToken;
use tokio::time::Instant;

use crate::app::App;
use crate::net::listener::Listener;
use crate::net::shutdown::Shutdown;
use commands::LastQuota;
use parse::Bounds;

/// Answers commands until the server ends, and those that were sent by then.
pub(crate) async fn serve(listener: Listener, app: Arc<App>, token: Option<BearerToken>, shutdown: Shutdown) {
    let door = Arc::new(RespDoor::new(app, token));
    let ending = shutdown.clone();
    listener
        .run(shutdown, move |stream, peer, account| {
            connection::serve(stream, peer, account, Arc::clone(&door), ending.clone())
        })
        .await;
}

/// The state that all connections of the port share.
pub(crate) struct RespDoor {
    pub(crate) app: Arc<App>,
    pub(crate) token: Option<BearerToken>,
    pub(crate) started: Instant,
    connected: AtomicU64,
    next_id: AtomicU64,
}

impl RespDoor {
    pub(crate) fn new(app: Arc<App>, token: Option<BearerToken>) -> Self {
        RespDoor { app, token, started: Instant::now(), connected: AtomicU64::new(0), next_id: AtomicU64::new(1) }
    }

    /// Returns how many clients are connected.
    pub(crate) fn connected(&self) -> u64 {
        self.connected.load(Ordering::Relaxed)
    }

    /// Counts a new client, and gives it an id.
    pub(crate) fn connect(self: Arc<Self>) -> Client {
        self.connected.fetch_add(1, Ordering::Relaxed);
        Client { id: self.next_id.fetch_add(1, Ordering::Relaxed), door: self }
    }
}

/// A connected client.
pub(crate) struct Client {
    pub(crate) id: u64,
    pub(crate) door: Arc<RespDoor>,
}

impl Drop for Client {
    fn drop(&mut self) {
        self.door.connected.fetch_sub(1, Ordering::Relaxed);
    }
}

/// How many wrong tokens end a connection.
const MAX_FAILURES: u32 = 5;

// Every token fits into a command of a client without one.
const _: () = assert!(BearerToken::MAX_BYTES <= Bounds::UNAUTHENTICATED.word);

/// The state of one client's session.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: u64,
    /// The name that it has set.
    pub(crate) name: Vec<u8>,
    /// Whether it has shown the token, or there is none.
    pub(crate) is_authenticated: bool,
    /// Whether the connection closes after the reply.
    pub(crate) closing: bool,
    pub(crate) last_quota: LastQuota,
    failures: u32,
}

impl Session {
    pub(crate) fn new(id: u64, is_authenticated: bool) -> Self {
        Session {
            id,
            name: Vec::new(),
            is_authenticated,
            closing: false,
            last_quota: LastQuota::default(),
            failures: 0,
        }
    }

    /// Returns the bounds of its commands.
    pub(crate) fn bounds(&self) -> Bounds {
        if self.is_authenticated { Bounds::AUTHENTICATED } else { Bounds::UNAUTHENTICATED }
    }

    /// Counts a wrong token.
    pub(crate) fn authentication_failed(&mut self) {
        self.failures += 1;
        self.closing |= self.failures >= MAX_FAILURES;
    }
}

#[cfg(test)]
mod tests;
