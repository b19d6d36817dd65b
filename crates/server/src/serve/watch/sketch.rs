//! The keys that come most often, without a count for every key there is.

/// How many keys have a counter.
pub(crate) const COUNTERS: usize = 100;

/// The Space-Saving sketch: a fixed number of counters, the smallest of which is given to a key that has none. Of
/// `total` that were counted with `m` counters, every key that came more than `total / m` times has a counter, no
/// counter says less than the truth, and none says more than that by over its `error`, which is `total / m` at most.
#[derive(Debug)]
pub(crate) struct Sketch {
    room: usize,
    // Side by side, because each count looks through all of the first, and sometimes all of the second.
    ids: Vec<u64>,
    counts: Vec<u64>,
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    error: u64,
    shown: Shown,
}

/// A key, as far as it is shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) kind: Kind,
    pub(crate) text: String,
    /// Whether that is all of it.
    pub(crate) whole: bool,
}

/// What the text of a key is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// The one part it has.
    #[default]
    Text,
    /// Its parts, as a list in JSON.
    Parts,
    /// The address of a client that has no name.
    Client,
    /// None: it is everybody's.
    Global,
    /// A hash of it.
    Hash,
}

/// One counter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Counter {
    pub(crate) id: u64,
    pub(crate) shown: Shown,
    pub(crate) count: u64,
    /// By how much the count may be too high.
    pub(crate) error: u64,
}

impl Sketch {
    pub(crate) fn new(room: usize) -> Self {
        Sketch { room, ids: Vec::new(), counts: Vec::new(), entries: Vec::new() }
    }

    /// Counts one. How the key is shown is only asked for when it gets a counter.
    pub(crate) fn count(&mut self, id: u64, show: impl FnOnce(&mut Shown)) {
        if let Some(place) = self.ids.iter().position(|known| *known == id) {
            self.counts[place] += 1;
            return;
        }
        if self.ids.len() < self.room {
            let mut shown = Shown::default();
            show(&mut shown);
            self.ids.push(id);
            self.counts.push(1);
            self.entries.push(Entry { error: 0, shown });
            return;
        }
        let smallest = (0..self.counts.len()).min_by_key(|place| self.counts[*place]).expect("there is room for some");
        self.ids[smallest] = id;
        let entry = &mut self.entries[smallest];
        entry.error = self.counts[smallest];
        entry.shown.text.clear();
        show(&mut entry.shown);
        self.counts[smallest] += 1;
    }

    /// Every counter, in no order.
    pub(crate) fn counters(&self) -> impl Iterator<Item = Counter> {
        self.entries.iter().enumerate().map(|(place, entry)| Counter {
            id: self.ids[place],
            shown: entry.shown.clone(),
            count: self.counts[place],
            error: entry.error,
        })
    }

    /// What a key can have come to that has no counter.
    pub(crate) fn unseen(&self) -> u64 {
        if self.ids.len() < self.room { 0 } else { self.counts.iter().copied().min().unwrap_or(0) }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use tidegate_testkit::Random;

    use super::*;

    /// Keys of which few are heavy (the product of two), many light ones between them, in bursts at times.
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
    fn heavy_keys_are_in_it_and_the_error_is_bounded() {
        for seed in 0..300 {
            let room = [1, 2, 7, 20, COUNTERS][seed as usize % 5];
            let keys = [3, 50, 400, 5000][seed as usize % 4];
            let mut sketch = Sketch::new(room);
            let mut truth: HashMap<u64, u64> = HashMap::new();
            let stream = stream(seed, 4000, keys);
            for key in &stream {
                sketch.count(*key, |shown| shown.text = key.to_string());
                *truth.entry(*key).or_default() += 1;
            }
            let total = stream.len() as u64;
            let counters: Vec<_> = sketch.counters().collect();
            assert!(counters.len() <= room);
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
                assert!(counter.error <= total / room as u64, "seed {seed}: the error is bounded");
            }
            for (key, count) in truth {
                let found = counters.iter().any(|counter| counter.id == key);
                assert!(found || count <= total / room as u64, "seed {seed}: {key} came {count} times of {total}");
                assert!(found || count <= sketch.unseen(), "seed {seed}: {key} came {count} times, unseen");
            }
        }
    }

    #[test]
    fn nothing_is_guessed_while_there_is_room() {
        let mut sketch = Sketch::new(3);
        for key in [1, 2, 3, 1, 1, 2] {
            sketch.count(key, |_| ());
        }
        let mut counted: Vec<_> = sketch.counters().map(|counter| (counter.id, counter.count, counter.error)).collect();
        counted.sort_unstable();
        assert_eq!(counted, [(1, 3, 0), (2, 2, 0), (3, 1, 0)]);
    }
}
