//! Windows at start + n * period; every window entered grants `rate`, up to the capacity.

use super::arithmetic::Position;
use super::{State, Time, View};
use crate::Quota;

pub(super) struct FixedWindow {
    capacity: u64,
    rate: u64,
    period: u64,
    deficit: u64,
    time: Time,
    /// Until the next window begins.
    left: u64,
}

impl FixedWindow {
    /// The window of a key whose deficit was `deficit` when it was written.
    #[inline]
    pub(super) fn new(quota: &Quota, deficit: u64, time: Time) -> Self {
        let (period, rate) = (quota.period_micros(), quota.rate_u64());
        let position = Position::new(time, period, quota.start_micros());
        FixedWindow {
            capacity: u64::from(quota.capacity_u32()),
            rate,
            period,
            deficit: deficit.saturating_sub(position.entered.saturating_mul(rate)),
            time,
            left: period - position.into,
        }
    }
}

impl View for FixedWindow {
    #[inline]
    fn time(&self) -> Time {
        self.time
    }

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
            deficit => State::FixedWindow { deficit, last: self.time.at },
        };
    }
}
