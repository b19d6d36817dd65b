//! `LogThrottle`: a log line at most once in a period, however often its cause occurs.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Admits one line in a period, and counts the lines that are left out.
#[derive(Debug)]
pub(crate) struct LogThrottle {
    period: Duration,
    state: Mutex<ThrottleState>,
}

#[derive(Debug, Default)]
struct ThrottleState {
    /// When the last line was logged.
    last: Option<Instant>,
    left_out: u64,
}

impl LogThrottle {
    pub(crate) fn new(period: Duration) -> Self {
        LogThrottle { period, state: Mutex::default() }
    }

    /// Returns how many lines were left out since the last one; `None` for a line to leave out.
    pub(crate) fn admit(&self) -> Option<u64> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if state.last.is_some_and(|last| now - last < self.period) {
            state.left_out += 1;
            return None;
        }
        state.last = Some(now);
        Some(std::mem::take(&mut state.left_out))
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_line_in_a_period_is_admitted_and_the_others_are_counted() {
        const PERIOD: Duration = Duration::from_secs(1);
        let throttle = LogThrottle::new(PERIOD);
        assert_eq!([throttle.admit(), throttle.admit(), throttle.admit()], [Some(0), None, None]);
        advance(PERIOD - Duration::from_millis(1)).await;
        assert_eq!(throttle.admit(), None);
        advance(Duration::from_millis(1)).await;
        assert_eq!([throttle.admit(), throttle.admit()], [Some(3), None]);
        advance(PERIOD * 60).await;
        assert_eq!(throttle.admit(), Some(1));
    }
}
