//! The end of a load before its time.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

/// Ends the load.
#[derive(Clone)]
pub(super) struct Stopper {
    told: Arc<watch::Sender<bool>>,
    why: Arc<Mutex<Option<String>>>,
}

/// Hears that the load ends.
#[derive(Clone)]
pub(super) struct Stop(watch::Receiver<bool>);

impl Stopper {
    pub(super) fn new() -> (Self, Stop) {
        let (sender, receiver) = watch::channel(false);
        (Stopper { told: Arc::new(sender), why: Arc::default() }, Stop(receiver))
    }

    pub(super) fn stop(&self) {
        self.told.send_replace(true);
    }

    /// Ends it because it makes no sense; the first reason counts.
    pub(super) fn fail(&self, why: String) {
        self.why.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
        self.stop();
    }

    /// Why it makes no sense, if somebody said so.
    pub(super) fn why(&self) -> Option<String> {
        self.why.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Stop {
    /// Whether it ends. Cheap enough to be asked before every request.
    pub(super) fn is_told(&self) -> bool {
        // The one change there ever is; that nobody is left to tell is an end, too.
        self.0.has_changed().unwrap_or(true)
    }

    /// Waits until it ends.
    pub(super) async fn told(&mut self) {
        // Looked at only, so that it stays a change.
        let _ = self.0.clone().wait_for(|told| *told).await;
    }
}
