//! Times as headers have them: whole seconds, rounded up, so that nobody comes back too early.

use std::time::Duration;

pub(super) fn rounded_up(span: Duration) -> u64 {
    span.as_secs() + u64::from(span.subsec_nanos() > 0)
}

/// What `Retry-After` says: a wait of none would be no wait.
pub(super) fn to_wait(span: Duration) -> u64 {
    rounded_up(span).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_comes_back_too_early() {
        let micros = Duration::from_micros;
        for (span, seconds) in [(0, 0), (1, 1), (999_999, 1), (1_000_000, 1), (1_000_001, 2), (59_999_999, 60)] {
            assert_eq!(rounded_up(micros(span)), seconds, "{span}");
            assert_eq!(to_wait(micros(span)), seconds.max(1), "{span}");
        }
    }
}
