//! Request counts of a trailing window: all requests, and those that the service accepted.

use std::time::Duration;

use tidegate_core::Timestamp;

/// The number of parts of a window. One part is forgotten at a time.
const WINDOW_PARTS: usize = 120;

/// The counts of a trailing window, without a clock. The window is cut into parts, and the current part counts as a
/// whole. A request older than the window is forgotten, and one younger than 119/120 of it is not.
pub(super) struct RequestWindow {
    /// The length of a part, in microseconds.
    width: u64,
    parts: [RequestCounts; WINDOW_PARTS],
    /// The number of the current part, counted from the epoch.
    current: u64,
    sum: RequestCounts,
}

/// How many requests there were, and how many the service accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct RequestCounts {
    pub(super) requests: u64,
    pub(super) accepts: u64,
}

impl RequestWindow {
    pub(super) fn new(window: Duration) -> Self {
        let width = u64::try_from(window.as_micros() / WINDOW_PARTS as u128).unwrap_or(u64::MAX).max(1);
        RequestWindow {
            width,
            parts: [RequestCounts::default(); WINDOW_PARTS],
            current: 0,
            sum: RequestCounts::default(),
        }
    }

    /// Returns the counts at `now`. A clock that was set back counts as standing still.
    pub(super) fn counts(&mut self, now: Timestamp) -> RequestCounts {
        let number = now.as_micros() / self.width;
        let passed = number.saturating_sub(self.current);
        for offset in 1..=passed.min(WINDOW_PARTS as u64) {
            let part = std::mem::take(&mut self.parts[index(self.current + offset)]);
            self.sum.requests -= part.requests;
            self.sum.accepts -= part.accepts;
        }
        self.current += passed;
        self.sum
    }

    /// Counts a request.
    pub(super) fn count(&mut self, accepted: bool, now: Timestamp) {
        self.counts(now);
        for counts in [&mut self.parts[index(self.current)], &mut self.sum] {
            counts.requests += 1;
            counts.accepts += u64::from(accepted);
        }
    }
}

fn index(number: u64) -> usize {
    (number % WINDOW_PARTS as u64) as usize
}

#[cfg(test)]
mod tests {
    use tidegate_core::minutes;
    use tidegate_testkit::Random;

    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(1_800_000_000_000 + millis)
    }

    #[test]
    fn requests_older_than_the_window_are_forgotten() {
        let mut window = RequestWindow::new(minutes(2));
        window.count(true, at(0));
        window.count(false, at(999));
        window.count(false, at(1_000));
        let counts = |requests, accepts| RequestCounts { requests, accepts };
        assert_eq!(window.counts(at(119_999)), counts(3, 1));
        assert_eq!(window.counts(at(120_000)), counts(1, 0));
        assert_eq!(window.counts(at(120_999)), counts(1, 0));
        assert_eq!(window.counts(at(121_000)), counts(0, 0));
    }

    #[test]
    fn clock_set_back_stands_still() {
        let mut window = RequestWindow::new(minutes(2));
        window.count(true, at(60_000));
        window.count(true, at(0));
        assert_eq!(window.counts(at(179_999)).requests, 2);
        assert_eq!(window.counts(at(180_000)).requests, 0);
    }

    #[test]
    fn counts_match_a_list_of_all_requests() {
        let mut random = Random::new(3);
        for _ in 0..50 {
            let span = random.between(1, 1_000);
            let mut window = RequestWindow::new(Duration::from_millis(span * WINDOW_PARTS as u64));
            let (mut all, mut now) = (Vec::new(), 0);
            for _ in 0..300 {
                let pause = span * random.pick(&[1, 10, 200]);
                now += random.below(pause);
                let accepted = random.one_in(3);
                window.count(accepted, at(now));
                all.push((at(now).as_micros() / (span * 1_000), accepted));
                let oldest = (at(now).as_micros() / (span * 1_000)).saturating_sub(WINDOW_PARTS as u64 - 1);
                let kept = || all.iter().filter(|(part, _)| *part >= oldest);
                let accepts = kept().filter(|(_, accepted)| *accepted).count() as u64;
                assert_eq!(window.counts(at(now)), RequestCounts { requests: kept().count() as u64, accepts });
            }
        }
    }
}
