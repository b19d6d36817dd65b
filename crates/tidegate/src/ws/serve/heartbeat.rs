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
    sign: Notify,
    /// Whether anybody listens: a peer that is not read is not silent.
    listening: AtomicBool,
    /// Whether a ping is to be sent.
    due: AtomicBool,
    asked: Notify,
    sent: Notify,
    /// Pings whose answers are still to come.
    owed: AtomicU64,
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

    /// Whether a pong is the answer to one of our pings.
    pub(super) fn is_answer(&self) -> bool {
        self.owed.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |owed| owed.checked_sub(1)).is_ok()
    }

    /// Whether a ping is to be sent now.
    pub(super) fn is_due(&self) -> bool {
        self.due.swap(false, Ordering::Relaxed)
    }

    /// Ends when a ping may be due.
    pub(super) async fn asked(&self) {
        self.asked.notified().await;
    }

    /// A ping is on its way.
    pub(super) fn sent(&self) {
        self.owed.fetch_add(1, Ordering::Relaxed);
        self.sent.notify_one();
    }

    /// Has the peer pinged, and ends when it does not answer.
    pub(super) async fn watch(&self, heartbeat: Option<Heartbeat>) -> Ending {
        let Some(Heartbeat { interval, timeout }) = heartbeat else { return pending().await };
        loop {
            sleep(interval).await;
            self.due.store(true, Ordering::Relaxed);
            self.asked.notify_one();
            // Until then it has nothing to answer. That sending ends is for the writer to see to.
            let signs = self.signs.load(Ordering::Relaxed);
            self.sent.notified().await;
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
