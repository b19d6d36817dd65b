//! The clock of a JavaScript runtime: in milliseconds, and standing still between two awaits.

use tidegate_core::Timestamp;

/// The system's clock, under the name it has on other platforms.
pub(crate) struct TickCounter;

#[inline]
pub(super) fn counter() -> &'static TickCounter {
    &TickCounter
}

/// Returns the system time: there is no clock that cannot be set.
pub(super) fn steady() -> Timestamp {
    TickCounter.now()
}

impl TickCounter {
    /// Returns the current time.
    pub(crate) fn now(&self) -> Timestamp {
        // Whole milliseconds since the epoch, which a float holds exactly for longer than there are dates.
        Timestamp::from_millis(js_sys::Date::now() as u64)
    }
}
