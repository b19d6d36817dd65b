//! How far it is, for people who wait.

use std::io::{self, IsTerminal};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// A bar on standard error when that is a terminal, and nothing otherwise.
pub(super) struct Progress(Option<ProgressBar>);

impl Progress {
    /// A bar for a load of that duration.
    pub(super) fn new(duration: Duration) -> Self {
        if !io::stderr().is_terminal() {
            return Progress(None);
        }
        let style = ProgressStyle::with_template("{bar:40} {msg}").unwrap_or_else(|_| ProgressStyle::default_bar());
        Progress(Some(ProgressBar::new(duration.as_millis() as u64).with_style(style)))
    }

    /// Shows how far it is, and requests with those among them that failed.
    pub(super) fn tell(&self, elapsed: Duration, (requests, failed): (u64, u64)) {
        if let Some(bar) = &self.0 {
            let left = Duration::from_millis(bar.length().unwrap_or(0)).saturating_sub(elapsed);
            let rate = requests as f64 / elapsed.as_secs_f64().max(0.001);
            bar.set_message(format!("{rate:.0} a second, {failed} errors, {}s left", left.as_secs()));
            bar.set_position(elapsed.as_millis() as u64);
        }
    }

    /// Takes the bar away, so that what is said next stands alone.
    pub(super) fn finish(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
