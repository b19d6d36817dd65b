//! The overflow table: states that do not fit in a slot, such as sliding logs.
//!
//! A slot in the main table names the place. A thread that holds that slot's line may use the place, so the locks here
//! only protect the places themselves. Places live in segments that never move, so growing never copies the whole.

use tidegate_core::{Quota, State, Timestamp};

use super::sync::{AtomicUsize, Mutex, MutexGuard, Ordering};

const SHARDS: u64 = 16;
const SEGMENT_LEN: usize = 512;

/// A key's state, with its quota, fingerprint and line.
pub(super) struct KeyRecord {
    pub(super) fingerprint: u64,
    /// One of the two candidate lines of the key.
    pub(super) line: usize,
    pub(super) quota: Quota,
    pub(super) state: State,
}

/// A sharded table of states that do not fit in a slot.
pub(super) struct OverflowTable {
    shards: Box<[Mutex<Shard>]>,
    /// Bytes of all records, an estimate from their sizes.
    bytes: AtomicUsize,
    eviction_cursor: AtomicUsize,
}

/// A slab of records: vacant entries form a linked list.
#[derive(Default)]
struct Shard {
    segments: Vec<Box<[SlabEntry]>>,
    /// The first vacant entry below `len`; each links to the next.
    first_vacant: Option<usize>,
    /// How many entries were ever occupied.
    len: usize,
}

/// One entry of a slab.
enum SlabEntry {
    Vacant { next: Option<usize> },
    Occupied(KeyRecord),
}

impl Shard {
    fn slab_entry(&mut self, place: usize) -> &mut SlabEntry {
        &mut self.segments[place / SEGMENT_LEN][place % SEGMENT_LEN]
    }

    fn insert(&mut self, record: KeyRecord) -> usize {
        let place = self.first_vacant.unwrap_or(self.len);
        if place == self.segments.len() * SEGMENT_LEN {
            self.segments.push((0..SEGMENT_LEN).map(|_| SlabEntry::Vacant { next: None }).collect());
        }
        match std::mem::replace(self.slab_entry(place), SlabEntry::Occupied(record)) {
            SlabEntry::Vacant { next } if place < self.len => self.first_vacant = next,
            _ => self.len += 1,
        }
        place
    }

    fn remove(&mut self, place: usize) -> Option<KeyRecord> {
        let next = self.first_vacant;
        match std::mem::replace(self.slab_entry(place), SlabEntry::Vacant { next }) {
            SlabEntry::Occupied(record) => {
                self.first_vacant = Some(place);
                Some(record)
            }
            SlabEntry::Vacant { .. } => None,
        }
    }
}

fn record_bytes(state: &State) -> usize {
    size_of::<SlabEntry>() + state.heap_bytes()
}

impl OverflowTable {
    pub(super) fn new() -> Self {
        OverflowTable {
            shards: (0..SHARDS).map(|_| Mutex::new(Shard::default())).collect(),
            bytes: AtomicUsize::new(0),
            eviction_cursor: AtomicUsize::new(0),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Returns whether the record at a place, whose line the caller holds, is larger than `max_bytes` and than its quota
    /// needs.
    pub(super) fn is_oversized(&self, place: u64, max_bytes: usize) -> bool {
        self.with_record(place, |record| {
            record_bytes(&record.state) > max_bytes && record.state.exceeds_quota(&record.quota)
        })
    }

    /// Stores a record and returns its place.
    pub(super) fn insert(&self, record: KeyRecord) -> u64 {
        let which = record.fingerprint % SHARDS;
        self.bytes.fetch_add(record_bytes(&record.state), Ordering::Relaxed);
        self.shard(which).insert(record) as u64 * SHARDS + which
    }

    /// Calls `work` with the record at a place, whose line the caller holds.
    pub(super) fn with_record<R>(&self, place: u64, work: impl FnOnce(&mut KeyRecord) -> R) -> R {
        let mut shard = self.shard(place % SHARDS);
        let SlabEntry::Occupied(record) = shard.slab_entry((place / SHARDS) as usize) else {
            unreachable!("a slot points to it");
        };
        let before = record_bytes(&record.state);
        let result = work(record);
        let after = record_bytes(&record.state);
        self.bytes.fetch_add(after, Ordering::Relaxed);
        self.bytes.fetch_sub(before, Ordering::Relaxed);
        result
    }

    /// Removes the record at a place, whose line the caller holds.
    pub(super) fn remove(&self, place: u64) -> KeyRecord {
        let removed = self.shard(place % SHARDS).remove((place / SHARDS) as usize);
        let record = removed.expect("a slot points to it");
        self.bytes.fetch_sub(record_bytes(&record.state), Ordering::Relaxed);
        record
    }

    /// Returns the line and fingerprint of the record closest to new, among the next few.
    pub(super) fn closest_to_new(&self, candidates: usize, now: Timestamp) -> Option<(usize, u64)> {
        let mut best: Option<((u16, Timestamp), usize, u64)> = None;
        let mut left = candidates;
        // A few places are empty; all of a shard's may be.
        for _ in 0..candidates + SHARDS as usize {
            let cursor = self.eviction_cursor.fetch_add(1, Ordering::Relaxed);
            let mut shard = self.shard(cursor as u64 % SHARDS);
            if shard.len == 0 {
                continue;
            }
            let place = cursor / SHARDS as usize % shard.len;
            // A state that was moved out for a step belongs to a key in use.
            let SlabEntry::Occupied(record) = shard.slab_entry(place) else { continue };
            if record.state == State::New {
                continue;
            }
            let distance = (record.state.used_share(&record.quota, now), record.state.new_at(&record.quota));
            if best.is_none_or(|(best, ..)| distance < best) {
                best = Some((distance, record.line, record.fingerprint));
            }
            left -= 1;
            if left == 0 {
                break;
            }
        }
        best.map(|(_, line, fingerprint)| (line, fingerprint))
    }

    fn shard(&self, shard: u64) -> MutexGuard<'_, Shard> {
        // Nothing that runs under this lock panics halfway: states are moved in and out whole.
        self.shards[shard as usize].lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
