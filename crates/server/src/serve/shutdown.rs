//! When it ends.

use tokio::sync::watch;

/// Tells everybody that it ends.
pub(crate) struct Ending(watch::Sender<bool>);

/// Hears when it ends.
#[derive(Clone)]
pub(crate) struct Shutdown(watch::Receiver<bool>);

impl Ending {
    pub(crate) fn new() -> (Self, Shutdown) {
        let (sender, receiver) = watch::channel(false);
        (Ending(sender), Shutdown(receiver))
    }

    pub(crate) fn begin(&self) {
        self.0.send_replace(true);
    }
}

impl Shutdown {
    /// Waits until it ends.
    pub(crate) async fn begun(&mut self) {
        // Whoever tells is gone: that is an end, too.
        let _ = self.0.wait_for(|begun| *begun).await;
    }
}
