//! `ClockJumpDetector`: notices when the system's time is set.

use std::time::Duration;

use tidegate::Timestamp;
use tokio::time::Instant;
use tracing::warn;

/// How far the system's time may move away from a steady clock between two readings.
const MAX_DIFFERENCE: Duration = Duration::from_secs(60);

/// Compares the system's time with a clock that cannot be set.
pub(super) struct ClockJumpDetector {
    /// The last readings of both clocks.
    system: Timestamp,
    steady: Instant,
}

/// A jump of the system's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClockJump {
    Ahead(Duration),
    Back(Duration),
}

impl ClockJumpDetector {
    pub(super) fn new(system: Timestamp, steady: Instant) -> Self {
        ClockJumpDetector { system, steady }
    }

    /// Logs a jump since the last readings.
    pub(super) fn observe(&mut self, system: Timestamp, steady: Instant) {
        match self.jump(system, steady) {
            Some(ClockJump::Ahead(by)) => {
                warn!(?by, "the system's time has jumped ahead: keys are refilled as if that much time had passed");
            }
            Some(ClockJump::Back(by)) => {
                warn!(?by, "the system's time was set back: keys stand still until it has caught up");
            }
            None => {}
        }
    }

    fn jump(&mut self, system: Timestamp, steady: Instant) -> Option<ClockJump> {
        let expected = self.system.saturating_add(steady - self.steady);
        (self.system, self.steady) = (system, steady);
        let jump = if system >= expected {
            ClockJump::Ahead(system.since(expected))
        } else {
            ClockJump::Back(expected.since(system))
        };
        let (ClockJump::Ahead(by) | ClockJump::Back(by)) = jump;
        (by > MAX_DIFFERENCE).then_some(jump)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn jump_of_more_than_a_minute_is_reported_once() {
        let (second, minute) = (Duration::from_secs(1), Duration::from_secs(60));
        let (mut system, mut steady) = (Timestamp::from_millis(1_700_000_000_000), Instant::now());
        let mut detector = ClockJumpDetector::new(system, steady);
        let mut tick = |change: fn(Timestamp, Duration) -> Timestamp, by: Duration, elapsed: Duration| {
            system = change(system.saturating_add(elapsed), by);
            steady += elapsed;
            detector.jump(system, steady)
        };
        let (ahead, back) = (Timestamp::saturating_add, Timestamp::saturating_sub);
        // A busy machine reads the clocks late, and a time server corrects the time by a little.
        assert_eq!(tick(ahead, Duration::ZERO, minute * 60), None);
        assert_eq!(tick(ahead, minute, second), None);
        assert_eq!(tick(back, minute, second), None);
        let by = minute + Duration::from_micros(1);
        assert_eq!(tick(ahead, by, second), Some(ClockJump::Ahead(by)));
        assert_eq!(tick(ahead, Duration::ZERO, second), None);
        assert_eq!(tick(back, by, second), Some(ClockJump::Back(by)));
        assert_eq!(tick(ahead, Duration::ZERO, second), None);
    }
}
