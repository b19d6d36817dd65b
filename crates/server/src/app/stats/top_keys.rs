//! The most denied keys of a limit, found by a Space-Saving sketch in bounded memory.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many keys have a counter.
pub(crate) const MAX_COUNTERS: usize = 100;

/// The Space-Saving sketch: a fixed number of counters, the smallest of which goes to a key that has none.
///
/// With `m` counters and `total` events, every key with more than `total / m` events has a counter. A counter is never too
/// low, and too high by its `error` at most, which is at most `total / m`.
#[derive(Debug)]
pub(crate) struct Sketch {
    max_counters: usize,
    // Separate vectors, because each count scans all of the first, and sometimes all of the second.
    ids: Vec<u64>,
    counts: Vec<u64>,
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    error: u64,
    shown: ShownKey,
}

/// A key as the dashboard shows it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ShownKey {
    pub(crate) kind: KeyKind,
    pub(crate) text: String,
    /// Whether the text is complete.
    pub(crate) whole: bool,
}

/// The meaning of a shown key's text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum KeyKind {
    /// The only part of the key.
    #[default]
    Text,
    /// The parts of the key, as a list in JSON.
    Parts,
    /// The address of a client without a name.
    Client,
    /// Empty: the key of all clients together.
    Global,
    /// A hash of the key.
    Hash,
}

/// A counter of a sketch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Counter {
    pub(crate) id: u64,
    pub(crate) shown: ShownKey,
    pub(crate) count: u64,
    /// The count may be too high by this much.
    pub(crate) error: u64,
}

impl Sketch {
    pub(crate) fn new(max_counters: usize) -> Self {
        Sketch { max_counters, ids: Vec::new(), counts: Vec::new(), entries: Vec::new() }
    }

    /// Counts one event. `show` is called only if the key gets a new counter.
    pub(crate) fn count(&mut self, id: u64, show: impl FnOnce(&mut ShownKey)) {
        if let Some(place) = self.ids.iter().position(|known| *known == id) {
            self.counts[place] += 1;
            return;
        }
        if self.ids.len() < self.max_counters {
            let mut shown = ShownKey::default();
            show(&mut shown);
            self.ids.push(id);
            self.counts.push(1);
            self.entries.push(Entry { error: 0, shown });
            return;
        }
        let smallest = (0..self.counts.len()).min_by_key(|place| self.counts[*place]).expect("there is a counter");
        self.ids[smallest] = id;
        let entry = &mut self.entries[smallest];
        entry.error = self.counts[smallest];
        entry.shown.text.clear();
        show(&mut entry.shown);
        self.counts[smallest] += 1;
    }

    /// Returns the counters, in no order.
    pub(crate) fn counters(&self) -> impl Iterator<Item = Counter> {
        self.entries.iter().enumerate().map(|(place, entry)| Counter {
            id: self.ids[place],
            shown: entry.shown.clone(),
            count: self.counts[place],
            error: entry.error,
        })
    }

    /// Returns the most events that a key without a counter can have had.
    pub(crate) fn max_unseen_count(&self) -> u64 {
        if self.ids.len() < self.max_counters { 0 } else { self.counts.iter().copied().min().unwrap_or(0) }
    }
}

/// The most denied keys of one limit, in the current period and the one before. It takes no memory before the first denial,
/// and about 20 kB at most.
#[derive(Debug, Default)]
pub(crate) struct TopKeys {
    periods: Mutex<Periods>,
    /// Denials that were not counted because another thread was counting: a flood of denials must not wait here.
    skipped: AtomicU64,
}

#[derive(Debug, Default)]
struct Periods {
    now: Option<Sketch>,
    before: Option<Sketch>,
}

impl TopKeys {
    /// Counts a denial.
    pub(super) fn count(&self, id: u64, show: impl FnOnce(&mut ShownKey)) {
        match self.periods.try_lock() {
            Ok(mut periods) => periods.now.get_or_insert_with(|| Sketch::new(MAX_COUNTERS)).count(id, show),
            Err(_) => {
                self.skipped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Starts another period, and drops the one before the last.
    pub(super) fn rotate(&self) {
        if let Ok(mut periods) = self.periods.lock() {
            periods.before = periods.now.take();
        }
    }

    /// Returns the counters of both periods, the highest first.
    pub(crate) fn counters(&self) -> Vec<Counter> {
        let Ok(periods) = self.periods.lock() else { return Vec::new() };
        let counters = |sketch: &Option<Sketch>| sketch.iter().flat_map(Sketch::counters).collect::<Vec<_>>();
        let unseen = |sketch: &Option<Sketch>| sketch.as_ref().map_or(0, Sketch::max_unseen_count);
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
    use std::collections::HashMap;

    use tidegate_testkit::Random;

    use super::*;

    /// A stream with few heavy keys (the product of two random numbers) among many light ones, with bursts.
    fn stream(seed: u64, length: usize, keys: u64) -> Vec<u64> {
        let mut random = Random::new(seed);
        let mut stream = Vec::with_capacity(length);
        while stream.len() < length {
            let key = random.below(keys) * random.below(keys) / keys;
            let burst = if random.one_in(50) { random.below(40) } else { 1 };
            stream.extend((0..burst).map(|_| key));
        }
        stream
    }

    #[test]
    fn heavy_keys_have_counters_with_bounded_error() {
        for seed in 0..300 {
            let max_counters = [1, 2, 7, 20, MAX_COUNTERS][seed as usize % 5];
            let keys = [3, 50, 400, 5000][seed as usize % 4];
            let mut sketch = Sketch::new(max_counters);
            let mut truth: HashMap<u64, u64> = HashMap::new();
            let stream = stream(seed, 4000, keys);
            for key in &stream {
                sketch.count(*key, |shown| shown.text = key.to_string());
                *truth.entry(*key).or_default() += 1;
            }
            let total = stream.len() as u64;
            let counters: Vec<_> = sketch.counters().collect();
            assert!(counters.len() <= max_counters);
            assert_eq!(
                counters.iter().map(|counter| counter.count).sum::<u64>(),
                total,
                "seed {seed}: all are counted"
            );
            for counter in &counters {
                let true_count = truth[&counter.id];
                assert_eq!(counter.shown.text, counter.id.to_string(), "seed {seed}: the text is the key's");
                assert!(counter.count >= true_count, "seed {seed}: never too low");
                assert!(counter.count - counter.error <= true_count, "seed {seed}: too high by the error at most");
                assert!(counter.error <= total / max_counters as u64, "seed {seed}: the error is bounded");
            }
            for (key, count) in truth {
                let found = counters.iter().any(|counter| counter.id == key);
                assert!(
                    found || count <= total / max_counters as u64,
                    "seed {seed}: {key} came {count} times of {total}"
                );
                assert!(found || count <= sketch.max_unseen_count(), "seed {seed}: {key} came {count} times, unseen");
            }
        }
    }

    #[test]
    fn counts_are_exact_while_counters_are_free() {
        let mut sketch = Sketch::new(3);
        for key in [1, 2, 3, 1, 1, 2] {
            sketch.count(key, |_| ());
        }
        let mut counted: Vec<_> = sketch.counters().map(|counter| (counter.id, counter.count, counter.error)).collect();
        counted.sort_unstable();
        assert_eq!(counted, [(1, 3, 0), (2, 2, 0), (3, 1, 0)]);
    }

    fn count_denials(top: &TopKeys, id: u64, times: u64) {
        (0..times).for_each(|_| top.count(id, |shown| shown.text = id.to_string()));
    }

    fn key_counts(top: &TopKeys) -> Vec<(u64, u64)> {
        top.counters().iter().map(|counter| (counter.id, counter.count)).collect()
    }

    #[test]
    fn only_two_periods_count() {
        let top = TopKeys::default();
        count_denials(&top, 1, 5);
        top.rotate();
        count_denials(&top, 1, 1);
        count_denials(&top, 2, 3);
        assert_eq!(key_counts(&top), [(1, 6), (2, 3)]);
        top.rotate();
        assert_eq!(key_counts(&top), [(2, 3), (1, 1)]);
        top.rotate();
        assert_eq!(key_counts(&top), []);
    }

    #[test]
    fn a_full_period_bounds_the_missed_count() {
        let top = TopKeys::default();
        (0..MAX_COUNTERS as u64 + 1).for_each(|id| count_denials(&top, id, 2));
        top.rotate();
        count_denials(&top, 1000, 1);
        let counters = top.counters();
        let missed = counters.iter().find(|counter| counter.id == 1000).expect("counted now");
        assert_eq!((missed.count, missed.error), (3, 2), "it may have come twice before");
    }

    #[test]
    fn a_contended_count_is_skipped() {
        let top = TopKeys::default();
        let held = top.periods.lock().expect("free");
        count_denials(&top, 1, 2);
        drop(held);
        assert_eq!((key_counts(&top).len(), top.skipped()), (0, 2));
    }
}
