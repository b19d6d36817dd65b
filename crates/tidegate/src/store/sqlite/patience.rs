//! Waiting for a lock that another connection holds.

use std::time::Duration;

use rusqlite::Error;

use super::error::is_busy;

/// How long is waited before the next attempt: at first, and at most. Others hold the lock for one commit, usually some
/// ten microseconds; and an attempt costs a few, so that one every other millisecond is no load.
const FIRST: Duration = Duration::from_micros(50);
const LONGEST: Duration = Duration::from_millis(2);

/// Tries until it works, fails for another reason than a lock, or has waited for `within`. SQLite's own busy handler
/// would wait as well, but it could not be told that nobody wants the answer any more, which `is_wanted` says.
pub(super) fn patiently<T>(
    within: Duration,
    mut is_wanted: impl FnMut() -> bool,
    mut attempt: impl FnMut() -> Result<T, Error>,
) -> Result<T, Error> {
    let (mut pause, mut waited) = (FIRST, Duration::ZERO);
    loop {
        match attempt() {
            Err(error) if is_busy(&error) && waited < within && is_wanted() => {
                sleep(pause.min(within - waited));
                // No clock is read for this: what an attempt takes is small beside the pause.
                waited += pause;
                pause = (pause * 2).min(LONGEST);
            }
            result => return result,
        }
    }
}

#[allow(clippy::disallowed_methods)] // on a thread of the store's own, on which nobody else waits
fn sleep(span: Duration) {
    std::thread::sleep(span);
}
