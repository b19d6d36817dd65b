//! Stalls of this machine, in which no thread could run. Tests that bound a time allow for them.

use std::sync::{Mutex, Once};
use std::time::Duration;

use tidegate::millis;
use tokio::time::Instant;

/// Stretches in which a thread that wanted to run did not get to.
static STALLS: Mutex<Vec<(Instant, Instant)>> = Mutex::new(Vec::new());

/// How long the watching thread sleeps between two measurements.
const INTERVAL: Duration = millis(5);

/// Starts to watch for stalls, once.
#[allow(clippy::disallowed_methods)] // it measures how late a sleeping thread wakes up
pub(crate) fn start_watch() {
    static WATCH: Once = Once::new();
    WATCH.call_once(|| {
        std::thread::spawn(|| {
            loop {
                let began = Instant::now();
                std::thread::sleep(INTERVAL);
                let ended = Instant::now();
                if ended - began > 3 * INTERVAL {
                    STALLS.lock().unwrap().push((began, ended));
                }
            }
        });
    });
}

/// The time between two instants in which no thread could run.
pub(crate) fn stalled_time(from: Instant, to: Instant) -> Duration {
    let stalls = STALLS.lock().unwrap();
    stalls.iter().map(|(began, ended)| (*ended).min(to).saturating_duration_since((*began).max(from))).sum()
}
