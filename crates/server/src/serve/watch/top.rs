//! The keys of one limit that are denied most.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::sketch::{COUNTERS, Counter, Shown, Sketch};

/// The keys of one limit that are denied most, in the period that runs and the one before it. Takes no memory until
/// something is denied, and about 20 kB at most.
#[derive(Debug, Default)]
pub(crate) struct Top {
    periods: Mutex<Periods>,
    /// What was not counted because somebody else was counting just then: a flood of denials never waits here.
    skipped: AtomicU64,
}

#[derive(Debug, Default)]
struct Periods {
    now: Option<Sketch>,
    before: Option<Sketch>,
}

impl Top {
    /// Counts a denial.
    pub(super) fn count(&self, id: u64, show: impl FnOnce(&mut Shown)) {
        match self.periods.try_lock() {
            Ok(mut periods) => periods.now.get_or_insert_with(|| Sketch::new(COUNTERS)).count(id, show),
            Err(_) => {
                self.skipped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Begins another period, and forgets the one before the last.
    pub(super) fn turn(&self) {
        if let Ok(mut periods) = self.periods.lock() {
            periods.before = periods.now.take();
        }
    }

    /// The counters of both periods, the highest first.
    pub(crate) fn counters(&self) -> Vec<Counter> {
        let Ok(periods) = self.periods.lock() else { return Vec::new() };
        let counters = |sketch: &Option<Sketch>| sketch.iter().flat_map(Sketch::counters).collect::<Vec<_>>();
        let unseen = |sketch: &Option<Sketch>| sketch.as_ref().map_or(0, Sketch::unseen);
        let (mut now, mut before) = (counters(&periods.now), counters(&periods.before));
        let (unseen_now, unseen_before) = (unseen(&periods.now), unseen(&periods.before));
        drop(periods);
        for counter in &mut now {
            let place = before.iter().position(|other| other.id == counter.id);
            let (count, error) = place
                .map(|place| before.swap_remove(place))
                .map_or((unseen_before, unseen_before), |found| (found.count, found.error));
            counter.count += count;
            counter.error += error;
        }
        for counter in &mut before {
            counter.count += unseen_now;
            counter.error += unseen_now;
        }
        now.append(&mut before);
        now.sort_by_key(|counter| std::cmp::Reverse((counter.count, counter.id)));
        now
    }

    pub(crate) fn skipped(&self) -> u64 {
        self.skipped.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denied(top: &Top, id: u64, times: u64) {
        (0..times).for_each(|_| top.count(id, |shown| shown.text = id.to_string()));
    }

    fn counted(top: &Top) -> Vec<(u64, u64)> {
        top.counters().iter().map(|counter| (counter.id, counter.count)).collect()
    }

    #[test]
    fn two_periods_count_and_no_more() {
        let top = Top::default();
        denied(&top, 1, 5);
        top.turn();
        denied(&top, 1, 1);
        denied(&top, 2, 3);
        assert_eq!(counted(&top), [(1, 6), (2, 3)]);
        top.turn();
        assert_eq!(counted(&top), [(2, 3), (1, 1)]);
        top.turn();
        assert_eq!(counted(&top), []);
    }

    #[test]
    fn a_full_period_bounds_what_it_may_have_missed() {
        let top = Top::default();
        (0..COUNTERS as u64 + 1).for_each(|id| denied(&top, id, 2));
        top.turn();
        denied(&top, 1000, 1);
        let counters = top.counters();
        let missed = counters.iter().find(|counter| counter.id == 1000).expect("counted now");
        assert_eq!((missed.count, missed.error), (3, 2), "it may have come twice before");
    }

    #[test]
    fn who_cannot_count_now_does_not_wait() {
        let top = Top::default();
        let held = top.periods.lock().expect("free");
        denied(&top, 1, 2);
        drop(held);
        assert_eq!((counted(&top).len(), top.skipped()), (0, 2));
    }
}
