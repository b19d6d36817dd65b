//! When this machine did not let anybody run: a test that bounds a time has to know.

use std::sync::{Mutex, Once};
use std::time::Duration;

use tidegate::millis;
use tokio::time::Instant;

/// Stretches in which a thread that wanted to run did not get to.
static STALLS: Mutex<Vec<(Instant, Instant)>> = Mutex::new(Vec::new());

/// How long a thread sleeps between two looks.
const BEAT: Duration = millis(5);

/// Watches from now on.
#[allow(clippy::disallowed_methods)] // the very thing that is watched is whether a sleeper wakes up
pub(crate) fn watch() {
    static WATCH: Once = Once::new();
    WATCH.call_once(|| {
        std::thread::spawn(|| {
            loop {
                let began = Instant::now();
                std::thread::sleep(BEAT);
                let ended = Instant::now();
                if ended - began > 3 * BEAT {
                    STALLS.lock().unwrap().push((began, ended));
                }
            }
        });
    });
}

/// How much of a time nobody could run.
pub(crate) fn between(from: Instant, to: Instant) -> Duration {
    let stalls = STALLS.lock().unwrap();
    stalls.iter().map(|(began, ended)| (*ended).min(to).saturating_duration_since((*began).max(from))).sum()
}
