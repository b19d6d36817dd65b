//! The last five minutes of one limit, a sample a second.

use std::collections::VecDeque;

use super::counts::DecisionCounts;

/// How many seconds are kept.
pub(crate) const HISTORY_SECONDS: usize = 300;

/// The decisions of one second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Sample {
    pub(crate) allowed: u32,
    pub(crate) denied: u32,
    pub(crate) failed: u32,
}

impl Sample {
    fn total(&self) -> u64 {
        u64::from(self.allowed) + u64::from(self.denied) + u64::from(self.failed)
    }
}

/// The last five minutes of one limit. It takes 3.6 kB, and no memory before the first request and after five idle minutes.
#[derive(Debug, Default)]
pub(crate) struct History {
    last_counts: DecisionCounts,
    samples: VecDeque<Sample>,
    /// The sum of all samples.
    traffic: u64,
    /// For how many seconds there was no request.
    idle_seconds: usize,
}

impl History {
    /// Ends a second with the counts so far.
    pub(super) fn tick(&mut self, counts: DecisionCounts) {
        let (now, before) = (counts, std::mem::replace(&mut self.last_counts, counts));
        if now == before {
            self.idle_seconds += 1;
            if self.idle_seconds >= HISTORY_SECONDS {
                self.samples = VecDeque::new();
                self.traffic = 0;
            }
            if self.samples.is_empty() {
                return;
            }
        } else {
            self.idle_seconds = 0;
        }
        let grown = |of: fn(&DecisionCounts) -> u64| u32::try_from(of(&now) - of(&before)).unwrap_or(u32::MAX);
        let sample = Sample {
            allowed: grown(DecisionCounts::allowed),
            denied: grown(DecisionCounts::denied),
            failed: grown(DecisionCounts::failed),
        };
        let evicted = push_bounded(&mut self.samples, sample);
        self.traffic += sample.total();
        self.traffic -= evicted.map_or(0, |sample| sample.total());
    }

    /// Returns the requests in the samples that are kept.
    pub(super) fn traffic(&self) -> u64 {
        self.traffic
    }

    /// Returns the samples, the newest last. Before the first there was no request.
    pub(crate) fn samples(&self) -> &VecDeque<Sample> {
        &self.samples
    }
}

/// Adds a sample, and removes the oldest one if there is no room.
pub(super) fn push_bounded<T>(samples: &mut VecDeque<T>, sample: T) -> Option<T> {
    if samples.capacity() == 0 {
        samples.reserve_exact(HISTORY_SECONDS);
    }
    let evicted = if samples.len() == HISTORY_SECONDS { samples.pop_front() } else { None };
    samples.push_back(sample);
    evicted
}

#[cfg(test)]
mod tests {
    use tidegate::Error;

    use super::super::counts::DecisionCounters;
    use super::*;

    #[test]
    fn a_sample_has_the_requests_of_its_second() {
        let (counters, mut history) = (DecisionCounters::default(), History::default());
        history.tick(counters.total());
        assert_eq!(history.samples.capacity(), 0, "an idle limit takes no memory");
        for asked in [2, 0, 1] {
            (0..asked).for_each(|_| counters.count(&Err(Error::Closed)));
            history.tick(counters.total());
        }
        let failed: Vec<u32> = history.samples().iter().map(|sample| sample.failed).collect();
        assert_eq!(failed, [2, 0, 1]);
        assert_eq!(history.traffic(), 3);
    }

    #[test]
    fn history_is_bounded_and_freed_when_idle() {
        let (counters, mut history) = (DecisionCounters::default(), History::default());
        for _ in 0..HISTORY_SECONDS + 50 {
            counters.count(&Err(Error::Closed));
            history.tick(counters.total());
        }
        assert_eq!((history.samples().len(), history.samples.capacity()), (HISTORY_SECONDS, HISTORY_SECONDS));
        assert_eq!(history.traffic(), HISTORY_SECONDS as u64);
        (0..HISTORY_SECONDS - 1).for_each(|_| history.tick(counters.total()));
        assert_eq!(history.samples()[0].failed, 1);
        history.tick(counters.total());
        assert_eq!((history.samples.capacity(), history.traffic()), (0, 0));
    }
}
