//! The last minutes of one limit, a sample a second.

use std::collections::VecDeque;

use super::tally::Counts;

/// How many seconds are kept.
pub(crate) const SECONDS: usize = 300;

/// What was decided in one second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Sample {
    pub(crate) allowed: u32,
    pub(crate) denied: u32,
    pub(crate) failed: u32,
}

impl Sample {
    fn all(&self) -> u64 {
        u64::from(self.allowed) + u64::from(self.denied) + u64::from(self.failed)
    }
}

/// The last minutes of one limit: 3.6 kB once something was asked of it, nothing before that and after five minutes in
/// which nothing was.
#[derive(Debug, Default)]
pub(crate) struct History {
    counted: Counts,
    samples: VecDeque<Sample>,
    /// What all of them come to.
    traffic: u64,
    /// For how many seconds nothing was asked.
    idle: usize,
}

impl History {
    /// Ends a second with what was counted until now.
    pub(super) fn tick(&mut self, counts: Counts) {
        let (now, before) = (counts, std::mem::replace(&mut self.counted, counts));
        if now == before {
            self.idle += 1;
            if self.idle >= SECONDS {
                self.samples = VecDeque::new();
                self.traffic = 0;
            }
            if self.samples.is_empty() {
                return;
            }
        } else {
            self.idle = 0;
        }
        let grown = |of: fn(&Counts) -> u64| u32::try_from(of(&now) - of(&before)).unwrap_or(u32::MAX);
        let sample =
            Sample { allowed: grown(Counts::allowed), denied: grown(Counts::denied), failed: grown(Counts::failed) };
        let forgotten = push(&mut self.samples, sample);
        self.traffic += sample.all();
        self.traffic -= forgotten.map_or(0, |sample| sample.all());
    }

    /// How much was asked in the seconds that are kept.
    pub(super) fn traffic(&self) -> u64 {
        self.traffic
    }

    /// The samples, the newest last. Before the first, nothing was asked.
    pub(crate) fn samples(&self) -> &VecDeque<Sample> {
        &self.samples
    }
}

/// Adds a sample, and takes out one that is too old.
pub(super) fn push<T>(samples: &mut VecDeque<T>, sample: T) -> Option<T> {
    if samples.capacity() == 0 {
        samples.reserve_exact(SECONDS);
    }
    let forgotten = if samples.len() == SECONDS { samples.pop_front() } else { None };
    samples.push_back(sample);
    forgotten
}

#[cfg(test)]
mod tests {
    use tidegate::Error;

    use super::super::tally::Tally;
    use super::*;

    #[test]
    fn a_sample_is_what_came_in_that_second() {
        let (tally, mut history) = (Tally::default(), History::default());
        history.tick(tally.counts());
        assert_eq!(history.samples.capacity(), 0, "nothing was asked, and nothing is kept");
        for asked in [2, 0, 1] {
            (0..asked).for_each(|_| tally.count(&Err(Error::Closed)));
            history.tick(tally.counts());
        }
        let failed: Vec<u32> = history.samples().iter().map(|sample| sample.failed).collect();
        assert_eq!(failed, [2, 0, 1]);
        assert_eq!(history.traffic(), 3);
    }

    #[test]
    fn it_is_bounded_and_goes_when_nothing_is_asked() {
        let (tally, mut history) = (Tally::default(), History::default());
        for _ in 0..SECONDS + 50 {
            tally.count(&Err(Error::Closed));
            history.tick(tally.counts());
        }
        assert_eq!((history.samples().len(), history.samples.capacity()), (SECONDS, SECONDS));
        assert_eq!(history.traffic(), SECONDS as u64);
        (0..SECONDS - 1).for_each(|_| history.tick(tally.counts()));
        assert_eq!(history.samples()[0].failed, 1);
        history.tick(tally.counts());
        assert_eq!((history.samples.capacity(), history.traffic()), (0, 0));
    }
}
