//! The system's time, read from the processor's counter.
//!
//! A call of the system's clock costs about as much as the rest of a decision. So it is called once in ten
//! milliseconds. In between, the processor's own counter measures the time that has passed.
//!
//! The result is within a few microseconds of the system's time. The difference is the distance of the two readings,
//! plus the drift of the counter or the slew of the system's time in ten milliseconds. The result follows when the
//! system's time is set.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime};

use tidegate_core::Timestamp;

/// The time for which the counter is trusted, in nanoseconds.
const MAX_AGE_NANOS: u64 = 10_000_000;

/// The maximum distance between the readings of the counter and of the system to count as one, in nanoseconds.
const MAX_READING_NANOS: u64 = 5_000;

/// The bits of a fraction of a microsecond. With them, microseconds until the year 2540 fit in 64 bits, and a reading
/// needs no division.
const FRACTION_BITS: u32 = 10;

static COUNTER: LazyLock<TickCounter> = LazyLock::new(TickCounter::new);

/// Returns the counter.
#[inline]
pub(super) fn counter() -> &'static TickCounter {
    &COUNTER
}

/// Returns the time since the first call.
#[allow(clippy::disallowed_methods)] // this is the place
pub(super) fn steady() -> Timestamp {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    Timestamp::from_micros(START.elapsed().as_micros() as u64)
}

/// A counter, and the system's time at one of its values: a sequence lock, odd while it is written.
pub(crate) struct TickCounter {
    version: AtomicU64,
    raw: AtomicU64,
    /// In 2^-10 microseconds.
    time: AtomicU64,
    /// The length of 2^32 ticks in 2^-10 microseconds.
    scale: u64,
    /// The number of ticks for which the counter is trusted.
    max_ticks: u64,
    clock: quanta::Clock,
}

impl TickCounter {
    fn new() -> Self {
        let clock = quanta::Clock::new();
        let nanos = clock.delta_as_nanos(0, 1 << 32).max(1);
        let (scale, max_ticks) = (to_fractions(nanos), (MAX_AGE_NANOS << 32) / nanos);
        // The first reading does not trust the counter, and reads the system's time.
        let [version, raw, time] = [0; 3].map(AtomicU64::new);
        TickCounter { clock, scale, max_ticks, version, raw, time }
    }

    /// Returns the current time.
    #[inline]
    pub(crate) fn now(&self) -> Timestamp {
        let version = self.version.load(Ordering::Acquire);
        let (raw, time) = (self.raw.load(Ordering::Acquire), self.time.load(Ordering::Acquire));
        // A counter that has gone back, as after a resume on another machine, wraps and is far beyond trust.
        let ticks = self.clock.raw().wrapping_sub(raw);
        if ticks < self.max_ticks && version & 1 == 0 && self.version.load(Ordering::Relaxed) == version {
            // As many ticks as are trusted are ten milliseconds: times the scale that is less than 2^56.
            return Timestamp::from_micros((time + ((ticks * self.scale) >> 32)) >> FRACTION_BITS);
        }
        self.synchronize(version)
    }

    /// Reads the system's time, and publishes it unless another thread does.
    #[cold]
    fn synchronize(&self, version: u64) -> Timestamp {
        let (raw, nanos, after) = (self.clock.raw(), system_nanos(), self.clock.raw());
        // When the thread was suspended between the readings, they do not belong together.
        let is_consistent = after >= raw && self.clock.delta_as_nanos(raw, after) < MAX_READING_NANOS;
        let is_writer = is_consistent
            && version & 1 == 0
            && self.version.compare_exchange(version, version + 1, Ordering::Acquire, Ordering::Relaxed).is_ok();
        if is_writer {
            self.raw.store(raw, Ordering::Release);
            self.time.store(to_fractions(nanos), Ordering::Release);
            self.version.store(version + 2, Ordering::Release);
        }
        Timestamp::from_micros(nanos / 1_000)
    }
}

/// Converts nanoseconds to 2^-10 microseconds.
fn to_fractions(nanos: u64) -> u64 {
    ((u128::from(nanos) << FRACTION_BITS) / 1_000) as u64
}

/// Returns the nanoseconds since the epoch, which fit in 64 bits until the year 2554.
#[allow(clippy::disallowed_methods)] // this is the place
fn system_nanos() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    since.as_secs() * 1_000_000_000 + u64::from(since.subsec_nanos())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counter_set_back_does_not_stop_the_clock() {
        let counter = TickCounter::new();
        counter.now();
        counter.raw.store(counter.clock.raw() + 1_000_000_000_000, Ordering::SeqCst);
        counter.time.store(1, Ordering::SeqCst);
        let before = system_nanos() / 1_000;
        assert!(counter.now().as_micros() >= before - 50);
        assert!(counter.now().as_micros() >= before - 50);
    }

    #[test]
    fn counter_agrees_with_the_system() {
        for _ in 0..200_000 {
            // The counter's time lies between two readings of the system's, give or take the drift it may have.
            let before = system_nanos() / 1_000;
            let counter = counter().now().as_micros();
            let after = system_nanos() / 1_000;
            assert!((before - 50..=after + 50).contains(&counter), "{before} {counter} {after}");
        }
    }
}
