//! What all connections of the port have in common.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::time::Instant;

use crate::serve::auth::Token;
use crate::serve::gate::Gate;

/// What all connections of the port have in common.
pub(crate) struct Common {
    pub(crate) gate: Arc<Gate>,
    pub(crate) token: Option<Token>,
    pub(crate) started: Instant,
    connected: AtomicU64,
    next_id: AtomicU64,
}

impl Common {
    pub(crate) fn new(gate: Arc<Gate>, token: Option<Token>) -> Self {
        Common { gate, token, started: Instant::now(), connected: AtomicU64::new(0), next_id: AtomicU64::new(1) }
    }

    /// How many clients are connected.
    pub(crate) fn connected(&self) -> u64 {
        self.connected.load(Ordering::Relaxed)
    }

    /// A client has come: its number, for as long as it stays.
    pub(crate) fn welcome(self: Arc<Self>) -> Client {
        self.connected.fetch_add(1, Ordering::Relaxed);
        Client { id: self.next_id.fetch_add(1, Ordering::Relaxed), common: self }
    }
}

/// A client that is connected.
pub(crate) struct Client {
    pub(crate) id: u64,
    pub(crate) common: Arc<Common>,
}

impl Drop for Client {
    fn drop(&mut self) {
        self.common.connected.fetch_sub(1, Ordering::Relaxed);
    }
}
