//! Retries while another connection holds the lock.

use std::time::Duration;

use rusqlite::Error;

use super::error::is_busy;

/// The first pause between two attempts. Another connection holds the lock for one commit, usually some ten microseconds.
const MIN_PAUSE: Duration = Duration::from_micros(50);

/// The longest pause between two attempts. An attempt costs a few microseconds, so one every other millisecond is no load.
const MAX_PAUSE: Duration = Duration::from_millis(2);

/// Retries `attempt` while the database is busy, for at most `busy_timeout`. It gives up early when `is_wanted` returns
/// false: the caller no longer waits for the result. SQLite's own busy handler cannot give up early.
pub(super) fn retry_while_busy<T>(
    busy_timeout: Duration,
    mut is_wanted: impl FnMut() -> bool,
    mut attempt: impl FnMut() -> Result<T, Error>,
) -> Result<T, Error> {
    let (mut pause, mut waited) = (MIN_PAUSE, Duration::ZERO);
    loop {
        match attempt() {
            Err(error) if is_busy(&error) && waited < busy_timeout && is_wanted() => {
                sleep(pause.min(busy_timeout - waited));
                // This reads no clock: an attempt takes little time beside the pause.
                waited += pause;
                pause = (pause * 2).min(MAX_PAUSE);
            }
            result => return result,
        }
    }
}

#[allow(clippy::disallowed_methods)] // on a thread of the store's own, which serves no other work
fn sleep(span: Duration) {
    std::thread::sleep(span);
}
