//! The overflow table: states that do not fit in a slot, such as sliding logs.
//!
//! A slot in the main table names the place. A thread that holds that slot's line may use the place, so the locks here
//! only protect the places themselves. Places live in segments that never move, so growing never copies the whole.

use tidegate_core::{Quota, State, Timestamp};

use super::sync::{AtomicUsize, Mutex, MutexGuard, Ordering};

const SHARDS: u64 = 16;
const SEGMENT: usize = 512;

/// A state that does not fit in a slot, and where its slot is.
pub(super) struct Entry {
    pub(super) fingerprint: u64,
    /// One of the two lines the slot can be in.
    pub(super) line: usize,
    pub(super) quota: Quota,
    pub(super) state: State,
}

pub(super) struct Overflow {
    shards: Box<[Mutex<Shard>]>,
    /// Bytes of all entries, an estimate from their sizes.
    bytes: AtomicUsize,
    eviction_cursor: AtomicUsize,
}

#[derive(Default)]
struct Shard {
    segments: Vec<Box<[Place]>>,
    /// The first of the places that were used and are free again; each says which is next.
    free: Option<usize>,
    used: usize,
}

enum Place {
    Free { next: Option<usize> },
    Used(Entry),
}

impl Shard {
    fn place(&mut self, place: usize) -> &mut Place {
        &mut self.segments[place / SEGMENT][place % SEGMENT]
    }

    fn insert(&mut self, entry: Entry) -> usize {
        let place = self.free.unwrap_or(self.used);
        if place == self.segments.len() * SEGMENT {
            self.segments.push((0..SEGMENT).map(|_| Place::Free { next: None }).collect());
        }
        match std::mem::replace(self.place(place), Place::Used(entry)) {
            Place::Free { next } if place < self.used => self.free = next,
            _ => self.used += 1,
        }
        place
    }

    fn remove(&mut self, place: usize) -> Option<Entry> {
        let next = self.free;
        match std::mem::replace(self.place(place), Place::Free { next }) {
            Place::Used(entry) => {
                self.free = Some(place);
                Some(entry)
            }
            Place::Free { .. } => None,
        }
    }
}

fn bytes(state: &State) -> usize {
    size_of::<Place>() + state.heap_bytes()
}

impl Overflow {
    pub(super) fn new() -> Self {
        Overflow {
            shards: (0..SHARDS).map(|_| Mutex::new(Shard::default())).collect(),
            bytes: AtomicUsize::new(0),
            eviction_cursor: AtomicUsize::new(0),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Whether the entry at a place, whose line the caller holds, is larger than `largest` and than its quota needs.
    pub(super) fn is_larger_on_credit(&self, place: u64, largest: usize) -> bool {
        self.with(place, |entry| bytes(&entry.state) > largest && entry.state.is_beyond(&entry.quota))
    }

    /// Stores an entry and returns its place.
    pub(super) fn insert(&self, entry: Entry) -> u64 {
        let which = entry.fingerprint % SHARDS;
        self.bytes.fetch_add(bytes(&entry.state), Ordering::Relaxed);
        self.shard(which).insert(entry) as u64 * SHARDS + which
    }

    /// Calls `work` with the entry at a place, whose line the caller holds.
    pub(super) fn with<R>(&self, place: u64, work: impl FnOnce(&mut Entry) -> R) -> R {
        let mut shard = self.shard(place % SHARDS);
        let Place::Used(entry) = shard.place((place / SHARDS) as usize) else {
            unreachable!("a slot points to it");
        };
        let before = bytes(&entry.state);
        let result = work(entry);
        let after = bytes(&entry.state);
        self.bytes.fetch_add(after, Ordering::Relaxed);
        self.bytes.fetch_sub(before, Ordering::Relaxed);
        result
    }

    /// Removes the entry at a place, whose line the caller holds.
    pub(super) fn remove(&self, place: u64) -> Entry {
        let removed = self.shard(place % SHARDS).remove((place / SHARDS) as usize);
        let entry = removed.expect("a slot points to it");
        self.bytes.fetch_sub(bytes(&entry.state), Ordering::Relaxed);
        entry
    }

    /// Returns the line and fingerprint of the entry closest to new, among the next few.
    pub(super) fn closest_to_new(&self, candidates: usize, now: Timestamp) -> Option<(usize, u64)> {
        let mut best: Option<((u16, Timestamp), usize, u64)> = None;
        let mut left = candidates;
        // A few places are empty; all of a shard's may be.
        for _ in 0..candidates + SHARDS as usize {
            let cursor = self.eviction_cursor.fetch_add(1, Ordering::Relaxed);
            let mut shard = self.shard(cursor as u64 % SHARDS);
            if shard.used == 0 {
                continue;
            }
            let place = cursor / SHARDS as usize % shard.used;
            // A state that was moved out for a step belongs to a key in use.
            let Place::Used(entry) = shard.place(place) else { continue };
            if entry.state == State::New {
                continue;
            }
            let distance = (entry.state.used_share(&entry.quota, now), entry.state.new_at(&entry.quota));
            if best.is_none_or(|(best, ..)| distance < best) {
                best = Some((distance, entry.line, entry.fingerprint));
            }
            left -= 1;
            if left == 0 {
                break;
            }
        }
        best.map(|(_, line, fingerprint)| (line, fingerprint))
    }

    fn shard(&self, which: u64) -> MutexGuard<'_, Shard> {
        // Nothing that runs under this lock panics halfway: states are moved in and out whole.
        self.shards[which as usize].lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
