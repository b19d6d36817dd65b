//! The sliding window: a weighted estimate of the units used in the trailing period.
//!
//! Time is cut into buckets of period / buckets. The current bucket and the `buckets - 1` before it count in full. The
//! bucket before those counts by its share inside the period. Both sides of the comparison are integers, multiplied by
//! the bucket's length, so the estimate is exact.

use super::arithmetic::{WindowPosition, div_floor};
use super::{KeyView, State, StepTime};
use crate::Quota;

/// The units counted in each bucket of a sliding window, oldest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BucketCounts {
    /// One bucket: the previous one, weighted, and the current one.
    One([u64; 2]),
    /// Several buckets: the weighted one, then those that count in full.
    Many(Box<[u64]>),
}

impl BucketCounts {
    /// Returns the counts, oldest first: one more than the quota has buckets.
    pub fn as_slice(&self) -> &[u64] {
        match self {
            BucketCounts::One(counts) => counts,
            BucketCounts::Many(counts) => counts,
        }
    }

    /// Creates the counts of a state, oldest first: one more than the quota has buckets.
    pub fn from_slice(counts: &[u64]) -> Self {
        match counts {
            &[previous, current] => BucketCounts::One([previous, current]),
            many => BucketCounts::Many(many.into()),
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        match self {
            BucketCounts::One(_) => 0,
            BucketCounts::Many(counts) => size_of_val(&**counts),
        }
    }
}

/// A buffer on the stack for the counts of one key.
pub(super) trait CountsBuffer: AsRef<[u64]> + AsMut<[u64]> {
    fn zeroed(len: usize) -> Self;
}

impl CountsBuffer for [u64; 2] {
    fn zeroed(_: usize) -> Self {
        [0; 2]
    }
}

/// A buffer for up to 64 buckets and the weighted one.
pub(super) struct ManyBuckets {
    len: usize,
    counts: [u64; 65],
}

impl AsRef<[u64]> for ManyBuckets {
    fn as_ref(&self) -> &[u64] {
        &self.counts[..self.len]
    }
}

impl AsMut<[u64]> for ManyBuckets {
    fn as_mut(&mut self) -> &mut [u64] {
        &mut self.counts[..self.len]
    }
}

impl CountsBuffer for ManyBuckets {
    fn zeroed(len: usize) -> Self {
        ManyBuckets { len, counts: [0; 65] }
    }
}

/// The sliding window of one key at one time.
pub(super) struct SlidingWindow<B> {
    rate: u64,
    length: u64,
    counts: B,
    time: StepTime,
    /// The time since the current bucket began.
    offset: u64,
}

impl<B: CountsBuffer> SlidingWindow<B> {
    /// Creates the window of a key that was written with these counts.
    #[inline]
    pub(super) fn new(quota: &Quota, counts: Option<&BucketCounts>, time: StepTime) -> Self {
        let length = quota.bucket_micros();
        let position = WindowPosition::new(time, length, quota.start_micros());
        let mut now = B::zeroed(quota.parts().buckets as usize + 1);
        if let Some(counts) = counts {
            let (then, now) = (counts.as_slice(), now.as_mut());
            let windows_passed = usize::try_from(position.windows_passed).unwrap_or(usize::MAX).min(now.len());
            let kept = now.len() - windows_passed;
            now[..kept].copy_from_slice(&then[windows_passed..]);
        }
        SlidingWindow { rate: quota.rate_u64(), length, counts: now, time, offset: position.offset }
    }

    /// Returns the units of the buckets that count in full.
    #[inline]
    fn full_units(&self) -> u64 {
        self.counts.as_ref()[1..].iter().sum()
    }

    /// Returns the estimate times the bucket's length.
    #[inline]
    fn weighted(&self) -> u128 {
        u128::from(self.counts.as_ref()[0]) * u128::from(self.length - self.offset)
            + self.times_length(self.full_units())
    }

    #[inline]
    fn times_length(&self, units: u64) -> u128 {
        u128::from(units) * u128::from(self.length)
    }

    /// Returns the estimate in whole units, rounded up.
    pub(super) fn used(&self) -> u64 {
        self.weighted().div_ceil(self.length.into()) as u64
    }
}

impl<B: CountsBuffer> KeyView for SlidingWindow<B> {
    #[inline]
    fn time(&self) -> StepTime {
        self.time
    }

    #[inline]
    fn remaining(&self) -> u32 {
        div_floor(self.times_length(self.rate).saturating_sub(self.weighted()), self.length) as u32
    }

    #[inline]
    fn wait(&self, need: u64, slack: u64) -> u64 {
        let room = self.rate + slack - need;
        let counts = self.counts.as_ref();
        let mut full = self.full_units();
        // Nothing is taken meanwhile. So the buckets age: each in turn becomes the weighted one and fades.
        for (passed, &fading) in counts.iter().enumerate() {
            if passed > 0 {
                full -= fading;
            }
            if full <= room {
                let spare = room - full;
                let faded = match fading <= spare {
                    true => 0,
                    // The smallest e with fading * (length - e) <= spare * length.
                    false => self.length - div_floor(self.times_length(spare), fading) as u64,
                };
                let faded = if passed == 0 { faded.max(self.offset) } else { faded };
                return self.length * passed as u64 + faded - self.offset;
            }
        }
        unreachable!("when all buckets have faded there is room for whatever fits at all")
    }

    #[inline]
    fn admits(&self, need: u64, slack: u64) -> bool {
        self.weighted() <= self.times_length(self.rate + slack - need)
    }

    #[inline]
    fn record(&mut self, cost: u64) {
        if let Some(current) = self.counts.as_mut().last_mut() {
            *current += cost;
        }
    }

    #[inline]
    fn refund(&mut self, cost: u64) {
        let mut left = cost;
        for count in self.counts.as_mut().iter_mut().rev() {
            let back = left.min(*count);
            *count -= back;
            left -= back;
        }
    }

    #[inline]
    fn write(self, state: &mut State) {
        let counts = self.counts.as_ref();
        match state {
            _ if counts.iter().all(|count| *count == 0) => *state = State::New,
            // In place, so that only a key's first request allocates.
            State::SlidingWindow { counts: BucketCounts::Many(many), last } if many.len() == counts.len() => {
                many.copy_from_slice(counts);
                *last = self.time.at;
            }
            state => *state = State::SlidingWindow { counts: BucketCounts::from_slice(counts), last: self.time.at },
        }
    }
}
