//! A weighted estimate of what the trailing period has seen.
//!
//! Time is cut into buckets of period / buckets. The current bucket and the `buckets - 1` before it count in full;
//! the one before those counts by the share of it that is still inside the period. Compared as integers, multiplied
//! by the bucket's length, so that the estimate is exact.

use super::arithmetic::{Position, div_floor};
use super::{State, Time, View};
use crate::Quota;

/// What each bucket of a sliding window has seen, oldest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Counts {
    /// One bucket: the previous one, weighted, and the current one.
    One([u64; 2]),
    /// Several buckets: the weighted one, then those that count in full.
    Many(Box<[u64]>),
}

impl Counts {
    /// The counts, oldest first: one more than the quota has buckets.
    pub fn as_slice(&self) -> &[u64] {
        match self {
            Counts::One(counts) => counts,
            Counts::Many(counts) => counts,
        }
    }

    /// Counts of a state, oldest first: one more than the quota has buckets.
    pub fn from_slice(counts: &[u64]) -> Self {
        match counts {
            &[previous, current] => Counts::One([previous, current]),
            many => Counts::Many(many.into()),
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        match self {
            Counts::One(_) => 0,
            Counts::Many(counts) => size_of_val(&**counts),
        }
    }
}

/// Room for the counts of one key on the stack.
pub(super) trait Buffer: AsRef<[u64]> + AsMut<[u64]> {
    fn zeroed(len: usize) -> Self;
}

impl Buffer for [u64; 2] {
    fn zeroed(_: usize) -> Self {
        [0; 2]
    }
}

/// Up to 64 buckets and the weighted one.
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

impl Buffer for ManyBuckets {
    fn zeroed(len: usize) -> Self {
        ManyBuckets { len, counts: [0; 65] }
    }
}

pub(super) struct SlidingWindow<B> {
    rate: u64,
    length: u64,
    counts: B,
    time: Time,
    /// How far its time is into the current bucket.
    into: u64,
}

impl<B: Buffer> SlidingWindow<B> {
    /// The window of a key whose counts were `counts` when it was written.
    #[inline]
    pub(super) fn new(quota: &Quota, counts: Option<&Counts>, time: Time) -> Self {
        let length = quota.bucket_micros();
        let position = Position::new(time, length, quota.start_micros());
        let mut now = B::zeroed(quota.parts().buckets as usize + 1);
        if let Some(counts) = counts {
            let (then, now) = (counts.as_slice(), now.as_mut());
            let entered = usize::try_from(position.entered).unwrap_or(usize::MAX).min(now.len());
            let kept = now.len() - entered;
            now[..kept].copy_from_slice(&then[entered..]);
        }
        SlidingWindow { rate: quota.rate_u64(), length, counts: now, time, into: position.into }
    }

    /// The counts that are in the period in full.
    #[inline]
    fn full(&self) -> u64 {
        self.counts.as_ref()[1..].iter().sum()
    }

    /// The estimate times the bucket's length.
    #[inline]
    fn weighted(&self) -> u128 {
        u128::from(self.counts.as_ref()[0]) * u128::from(self.length - self.into) + self.times_length(self.full())
    }

    #[inline]
    fn times_length(&self, units: u64) -> u128 {
        u128::from(units) * u128::from(self.length)
    }

    /// The estimate in whole units, rounded up.
    pub(super) fn used(&self) -> u64 {
        self.weighted().div_ceil(self.length.into()) as u64
    }
}

impl<B: Buffer> View for SlidingWindow<B> {
    #[inline]
    fn time(&self) -> Time {
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
        let mut full = self.full();
        // Nobody takes anything, so bucket after bucket ages: the first becomes the weighted one and fades.
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
                let faded = if passed == 0 { faded.max(self.into) } else { faded };
                return self.length * passed as u64 + faded - self.into;
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
            // In place, so that a decision allocates only for a key's first request.
            State::SlidingWindow { counts: Counts::Many(many), last } if many.len() == counts.len() => {
                many.copy_from_slice(counts);
                *last = self.time.at;
            }
            state => *state = State::SlidingWindow { counts: Counts::from_slice(counts), last: self.time.at },
        }
    }
}
