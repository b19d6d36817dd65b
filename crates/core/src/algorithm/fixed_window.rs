//! The fixed window: adds `rate` units at the start of every window, up to the capacity.

use super::arithmetic::WindowPosition;
use super::{KeyView, State, StepTime};
use crate::Quota;

/// The fixed window of one key at one time.
pub(super) struct FixedWindow {
    capacity: u64,
    rate: u64,
    period: u64,
    deficit: u64,
    time: StepTime,
    /// The time until the next window begins.
    until_next_window: u64,
}

impl FixedWindow {
    /// Creates the window of a key that was written with this deficit.
    #[inline]
    pub(super) fn new(quota: &Quota, deficit: u64, time: StepTime) -> Self {
        let (period, rate) = (quota.period_micros(), quota.rate_u64());
        let position = WindowPosition::new(time, period, quota.start_micros());
        FixedWindow {
            capacity: u64::from(quota.capacity_u32()),
            rate,
            period,
            deficit: deficit.saturating_sub(position.windows_passed.saturating_mul(rate)),
            time,
            until_next_window: period - position.offset,
        }
    }
}

impl KeyView for FixedWindow {
    #[inline]
    fn time(&self) -> StepTime {
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
            windows => (windows - 1).saturating_mul(self.period).saturating_add(self.until_next_window),
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
