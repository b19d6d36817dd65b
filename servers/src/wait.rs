//! Waiting for another process.

use std::time::Duration;

/// Asks again and again until it is done, for twenty seconds or a bit more, and says whether it is.
#[allow(clippy::disallowed_methods)] // another process needs its time, and there is no clock to tell it by
pub fn wait_until(mut done: impl FnMut() -> bool) -> bool {
    (0..1_000).any(|_| {
        let done = done();
        if !done {
            std::thread::sleep(Duration::from_millis(20));
        }
        done
    })
}
