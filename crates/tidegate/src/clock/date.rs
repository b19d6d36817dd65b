//! The clock of a JavaScript runtime: in milliseconds, and standing still between two awaits.

use tidegate_core::Timestamp;

/// The counter of the system's clock.
pub(crate) struct Counter;

#[inline]
pub(super) fn counter() -> &'static Counter {
    &Counter
}

/// Returns the system time: there is no clock that cannot be set.
pub(super) fn steady() -> Timestamp {
    Counter.now()
}

impl Counter {
    /// Returns the current time.
    pub(crate) fn now(&self) -> Timestamp {
        // Whole milliseconds since the epoch, which a float holds exactly for longer than there are dates.
        Timestamp::from_millis(js_sys::Date::now() as u64)
    }
}
