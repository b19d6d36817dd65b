//! The time of whatever runs JavaScript: in milliseconds, and standing still while nothing is waited for.

use tidegate_core::Timestamp;

/// What the system's clock reads.
pub(crate) struct Counter;

#[inline]
pub(super) fn counter() -> &'static Counter {
    &Counter
}

/// There is no clock that cannot be set.
pub(super) fn steady() -> Timestamp {
    Counter.now()
}

impl Counter {
    /// The time now.
    pub(crate) fn now(&self) -> Timestamp {
        // Whole milliseconds since the epoch, which a float holds exactly for longer than there are dates.
        Timestamp::from_millis(js_sys::Date::now() as u64)
    }
}
