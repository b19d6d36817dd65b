//! Whether the peer is still there.

use std::future::pending;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::Notify;
use tokio::time::sleep;

use super::super::settings::Heartbeat;
use super::Ending;
use crate::clock::before;

/// What is known of the peer's life.
#[derive(Default)]
pub(super) struct Pulse {
    /// How often there was a sign of life.
    signs: AtomicU64,
    /// Whether anybody listens: a peer that is not read is not silent.
    listening: AtomicBool,
    sign: Notify,
    due: Notify,
}

impl Pulse {
    /// From now on silence counts.
    pub(super) fn reads(&self) {
        self.heard();
        self.listening.store(true, Ordering::Relaxed);
    }

    /// Something came from the peer, and silence does not count until reading goes on.
    pub(super) fn heard(&self) {
        self.listening.store(false, Ordering::Relaxed);
        self.signs.fetch_add(1, Ordering::Relaxed);
        self.sign.notify_waiters();
    }

    /// Ends when a ping is due.
    pub(super) async fn due(&self) {
        self.due.notified().await;
    }

    /// Has the peer pinged, and ends when it does not answer.
    pub(super) async fn watch(&self, heartbeat: Option<Heartbeat>) -> Ending {
        let Some(Heartbeat { interval, timeout }) = heartbeat else { return pending().await };
        loop {
            sleep(interval).await;
            let signs = self.signs.load(Ordering::Relaxed);
            self.due.notify_one();
            let answered = before(sleep(timeout), self.sign_after(signs)).await.is_some();
            if !answered && self.listening.load(Ordering::Relaxed) {
                return Ending::Lost("the peer does not answer");
            }
        }
    }

    /// Ends when there was another sign of life.
    async fn sign_after(&self, signs: u64) {
        let mut sign = pin!(self.sign.notified());
        // Waited for before it is looked for, so that none slips through in between.
        sign.as_mut().enable();
        if self.signs.load(Ordering::Relaxed) == signs {
            sign.await;
        }
    }
}
