//! The sliding log: the exact requests of the trailing period, one entry per microsecond.
//!
//! Each run carries the running total up to and including it. So two questions are binary searches in a log of any
//! length: how much has been used, and when will enough be free.

use std::collections::VecDeque;

use super::{KeyView, State, StepTime};
use crate::{Quota, Timestamp};

/// The state of a `sliding_log` limit: its requests of the trailing period.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RequestLog {
    runs: VecDeque<LogRun>,
    /// The running total before the first run. Totals wrap; only differences have a meaning.
    before: u64,
    /// The time of the write. A refund may have removed the newest run.
    last: Timestamp,
}

/// The requests of one microsecond.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LogRun {
    at: Timestamp,
    /// The units up to and including this run.
    total: u64,
}

impl RequestLog {
    /// Creates a log of `(time, units)` runs, oldest first, written at `last`.
    pub fn from_runs(runs: impl IntoIterator<Item = (Timestamp, u64)>, last: Timestamp) -> Self {
        let mut log = RequestLog::default();
        for (at, units) in runs {
            log.push(at, units);
        }
        log.last = last;
        log
    }

    /// Returns the runs, oldest first: the time and the units of each.
    pub fn runs(&self) -> impl Iterator<Item = (Timestamp, u64)> {
        let mut before = self.before;
        self.runs.iter().map(move |run| {
            let units = run.total.wrapping_sub(before);
            before = run.total;
            (run.at, units)
        })
    }

    /// Returns the units of all runs, expired ones included.
    pub(super) fn units(&self) -> u64 {
        self.first_units(self.runs.len())
    }

    pub(super) fn last(&self) -> Timestamp {
        self.last
    }

    /// Returns the time from the write until the newest run expires.
    pub(super) fn until_new(&self, quota: &Quota) -> u64 {
        let age = self.runs.back().map_or(u64::MAX, |run| self.last.as_micros() - run.at.as_micros());
        quota.period_micros().saturating_sub(age)
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.runs.capacity() * size_of::<LogRun>()
    }

    /// Returns the whole units left at a time.
    pub(super) fn remaining(&self, quota: &Quota, time: StepTime) -> u32 {
        let used = self.units() - self.first_units(self.expired(quota, time));
        quota.rate_u64().saturating_sub(used) as u32
    }

    /// Returns how many runs have expired at a time.
    fn expired(&self, quota: &Quota, time: StepTime) -> usize {
        // This form cannot overflow: a run is never later than the view's time.
        self.runs.partition_point(|run| time.at.as_micros() - run.at.as_micros() >= quota.period_micros())
    }

    /// Returns the units of the first `count` runs.
    fn first_units(&self, count: usize) -> u64 {
        let total = if count == 0 { self.before } else { self.runs[count - 1].total };
        total.wrapping_sub(self.before)
    }

    fn push(&mut self, at: Timestamp, units: u64) {
        let total = self.before.wrapping_add(self.units()).wrapping_add(units);
        match self.runs.back_mut() {
            Some(newest) if newest.at == at => newest.total = total,
            _ => self.runs.push_back(LogRun { at, total }),
        }
        self.last = at;
    }

    fn refund(&mut self, units: u64) {
        let mut left = units;
        while let Some(newest) = self.runs.back().copied() {
            let newest_units = self.units() - self.first_units(self.runs.len() - 1);
            if left < newest_units {
                self.runs.back_mut().expect("not empty").total = newest.total.wrapping_sub(left);
                return;
            }
            left -= newest_units;
            self.runs.pop_back();
        }
    }

    fn drop_first(&mut self, count: usize) {
        self.before = self.before.wrapping_add(self.first_units(count));
        self.runs.drain(..count);
        // A key that was busy once must not keep its memory forever.
        if self.runs.capacity() > 16 && self.runs.capacity() / 4 > self.runs.len() {
            self.runs.shrink_to(self.runs.len() * 2);
        }
    }
}

/// The log of one key at one time. A check changes nothing: only the next write drops expired runs.
pub(super) struct SlidingLog {
    rate: u64,
    period: u64,
    log: RequestLog,
    time: StepTime,
    /// The number of expired runs.
    expired: usize,
}

impl SlidingLog {
    /// Creates the view of a log at a time.
    #[inline]
    pub(super) fn new(quota: &Quota, log: RequestLog, time: StepTime) -> Self {
        let expired = log.expired(quota, time);
        SlidingLog { rate: quota.rate_u64(), period: quota.period_micros(), log, time, expired }
    }

    /// Returns the units used in the period.
    #[inline]
    fn used(&self) -> u64 {
        self.log.units() - self.log.first_units(self.expired)
    }

    fn drop_expired(&mut self) {
        self.log.drop_first(self.expired);
        self.expired = 0;
        self.log.last = self.time.at;
    }
}

impl KeyView for SlidingLog {
    #[inline]
    fn time(&self) -> StepTime {
        self.time
    }

    fn remaining(&self) -> u32 {
        self.rate.saturating_sub(self.used()) as u32
    }

    fn wait(&self, need: u64, slack: u64) -> u64 {
        let room = self.rate + slack - need;
        if self.used() <= room {
            return 0;
        }
        let units = self.log.units();
        // The first run after whose end the rest fits.
        let units_after = |run: &LogRun| units - run.total.wrapping_sub(self.log.before);
        let index = self.log.runs.partition_point(|run| units_after(run) > room);
        // A run is not later than the view and has not expired.
        self.period - (self.time.at.as_micros() - self.log.runs[index].at.as_micros())
    }

    fn admits(&self, need: u64, slack: u64) -> bool {
        self.used() + need <= self.rate + slack
    }

    fn record(&mut self, cost: u64) {
        self.drop_expired();
        self.log.push(self.time.at, cost);
    }

    fn refund(&mut self, cost: u64) {
        self.drop_expired();
        self.log.refund(cost);
    }

    fn write(self, state: &mut State) {
        *state = if self.log.runs.is_empty() { State::New } else { State::SlidingLog(self.log) };
    }

    fn restore(self, state: &mut State) {
        self.write(state);
    }
}
