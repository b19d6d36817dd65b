//! Windows at start + n * period; every window entered grants `rate`, up to the capacity.

use super::arithmetic::Position;
use super::{State, View};
use crate::{Quota, Timestamp};

pub(super) struct FixedWindow {
    capacity: u64,
    rate: u64,
    period: u64,
    deficit: u64,
    at: Timestamp,
    /// Until the next window begins.
    left: u64,
}

impl FixedWindow {
    /// The window at `at`, of a key whose deficit was `deficit` at `last`.
    #[inline]
    pub(super) fn new(quota: &Quota, deficit: u64, last: Timestamp, at: Timestamp) -> Self {
        let (period, rate) = (quota.period_micros(), quota.rate_u64());
        let position = Position::new(at, last, period, quota.start_micros());
        FixedWindow {
            capacity: u64::from(quota.capacity_u32()),
            rate,
            period,
            deficit: deficit.saturating_sub(position.entered.saturating_mul(rate)),
            at,
            left: period - position.into,
        }
    }
}

impl View for FixedWindow {
    #[inline]
    fn remaining(&self) -> u32 {
        self.capacity.saturating_sub(self.deficit) as u32
    }

    #[inline]
    fn wait(&self, need: u64, slack: u64) -> u64 {
        let excess = self.deficit.saturating_sub(self.capacity + slack - need);
        match excess.div_ceil(self.rate) {
            0 => 0,
            windows => (windows - 1).saturating_mul(self.period).saturating_add(self.left),
        }
    }

    #[inline]
    fn admits(&self, need: u64, slack: u64) -> bool {
        self.deficit + need <= self.capacity + slack
    }

    #[inline]
    fn record(&mut self, cost: u64) {
        self.deficit += cost;
    }

    #[inline]
    fn refund(&mut self, cost: u64) {
        self.deficit = self.deficit.saturating_sub(cost);
    }

    #[inline]
    fn write(self, state: &mut State) {
        *state = match self.deficit {
            0 => State::New,
            deficit => State::FixedWindow { deficit, last: self.at },
        };
    }
}
