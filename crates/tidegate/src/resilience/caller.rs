//! The caller of a store: a connection, whose calls take turns with those of others.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;

thread_local! {
    static CALLER: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Runs a future as a caller. Where calls [queue](super::BulkheadStore) for a store, the callers of a limit take turns, so that one with
/// many calls at once delays its own. A server runs each connection with a number of its own.
pub async fn with_caller<T>(caller: u64, future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    poll_fn(|context| {
        let _restore = Restore(CALLER.replace(Some(caller)));
        future.as_mut().poll(context)
    })
    .await
}

/// Returns the caller whose future is polled.
pub(super) fn current_caller() -> Option<u64> {
    CALLER.get()
}

/// Restores the caller of before when it is dropped, after a panic, too.
struct Restore(Option<u64>);

impl Drop for Restore {
    fn drop(&mut self) {
        CALLER.set(self.0);
    }
}
