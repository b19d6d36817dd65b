//! The overflow table: states that do not fit in a slot, such as sliding logs.
//!
//! A slot in the main table names the place. A thread that holds that slot's line may use the place, so the locks here
//! only protect the places themselves.
//!
//! Every record has an eviction class: the share of its capacity that is used, then the time until it is as good as
//! new. When the bytes run out, a record of the lowest class in the whole table is evicted, the one written least
//! recently. Its position plays no part, so no flood displaces an exhausted key while any record is closer to new. Time
//! lowers classes, so every eviction classifies the next few records again.

use tidegate_core::{Quota, State, Timestamp};

use super::slab::{CLASSES, Slab};
use super::sync::{AtomicU64, AtomicUsize, Mutex, MutexGuard, Ordering};

const SHARDS: usize = 16;
/// The number of records that are classified again for each eviction.
const RECLASSIFIED: usize = 8;
/// Classes of one used share, by the time until new.
const TIME_CLASSES: usize = 16;
/// The first of them is for times below `4^(SHORTEST_TIME + 1)` microseconds, which is 65 milliseconds. Each further one is
/// for times up to four times as long.
const SHORTEST_TIME: u32 = 7;

/// A key's state, with its quota, fingerprint and line.
pub(super) struct KeyRecord {
    pub(super) fingerprint: u64,
    /// One of the two candidate lines of the key.
    pub(super) line: usize,
    pub(super) quota: Quota,
    pub(super) state: State,
}

impl KeyRecord {
    fn eviction_class(&self, now: Timestamp) -> usize {
        eviction_class(self.state.eviction_rank(&self.quota, now), self.state.new_at(&self.quota), now)
    }

    fn bytes(&self) -> usize {
        Slab::<KeyRecord>::ENTRY_BYTES + allocated_bytes(self.state.heap_bytes())
    }
}

/// Returns the class of a record with this rank: 0 when it is as good as new, and the last ones when it is exhausted.
pub(super) fn eviction_class(rank: u16, new_at: Timestamp, now: Timestamp) -> usize {
    let Some(wait) = new_at.as_micros().checked_sub(now.as_micros()).filter(|wait| *wait > 0) else { return 0 };
    // A key with one request has used very little of a large capacity, so small shares have finer classes.
    let share = match rank {
        0..512 => 1 + rank.max(1).ilog2() as usize,
        512..State::EXHAUSTED_RANK => 10 + usize::from(rank - 512) / 128,
        _ => 14,
    };
    let time = (wait.ilog2() / 2).saturating_sub(SHORTEST_TIME) as usize;
    share * TIME_CLASSES + time.min(TIME_CLASSES - 1)
}

/// Returns the bytes that an allocation of `bytes` takes, including the allocator's own overhead.
fn allocated_bytes(bytes: usize) -> usize {
    if bytes == 0 { 0 } else { (bytes + 8).next_multiple_of(16) }
}

/// The record that is evicted next.
pub(super) struct Victim {
    pub(super) line: usize,
    pub(super) fingerprint: u64,
    pub(super) class: usize,
}

/// A sharded table of states that do not fit in a slot.
pub(super) struct OverflowTable {
    shards: Box<[Shard]>,
    /// Bytes of all records.
    bytes: AtomicUsize,
    /// A bit for each shard with many vacant entries.
    sparse: AtomicU64,
    evictions: AtomicUsize,
}

struct Shard {
    records: Mutex<Slab<KeyRecord>>,
    /// The lowest class that has a record.
    lowest_class: AtomicUsize,
}

impl OverflowTable {
    pub(super) fn new() -> Self {
        let shard = |_| Shard { records: Mutex::new(Slab::new()), lowest_class: AtomicUsize::new(CLASSES) };
        OverflowTable {
            shards: (0..SHARDS).map(shard).collect(),
            bytes: AtomicUsize::new(0),
            sparse: AtomicU64::new(0),
            evictions: AtomicUsize::new(0),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Returns whether the record at a place, whose line the caller holds, is larger than `max_bytes` and than its quota
    /// needs.
    pub(super) fn is_oversized(&self, place: u64, max_bytes: usize) -> bool {
        self.with_record(place, |record| record.bytes() > max_bytes && record.state.exceeds_quota(&record.quota))
    }

    /// Stores a record and returns its place.
    pub(super) fn insert(&self, record: KeyRecord, class: usize) -> u64 {
        let shard = record.fingerprint as usize % SHARDS;
        self.bytes.fetch_add(record.bytes(), Ordering::Relaxed);
        let place = self.with_shard(shard, |records| records.insert(record, class));
        place_in(shard, place)
    }

    /// Calls `work` with the record at a place, whose line the caller holds.
    pub(super) fn with_record<R>(&self, place: u64, work: impl FnOnce(&mut KeyRecord) -> R) -> R {
        let (shard, place) = split(place);
        self.update(&mut self.lock(shard), place, work)
    }

    /// Replaces the state and the quota of the record at a place, whose line the caller holds.
    pub(super) fn replace(&self, place: u64, state: State, quota: &Quota, class: usize) {
        let (shard, place) = split(place);
        let mut records = self.lock(shard);
        self.update(&mut records, place, |record| (record.state, record.quota) = (state, *quota));
        records.requeue(place, class);
        self.publish(shard, &records);
    }

    /// Removes the record at a place, whose line the caller holds.
    pub(super) fn remove(&self, place: u64) {
        let (shard, place) = split(place);
        let record = self.with_shard(shard, |records| records.remove(place)).expect("a slot points to it");
        self.bytes.fetch_sub(record.bytes(), Ordering::Relaxed);
    }

    /// Returns the record to evict next.
    pub(super) fn victim(&self, now: Timestamp) -> Option<Victim> {
        let turn = self.evictions.fetch_add(1, Ordering::Relaxed);
        self.reclassify(turn % SHARDS, turn / SHARDS * RECLASSIFIED, now);
        let lowest_class = |shard: usize| self.shards[shard].lowest_class.load(Ordering::Relaxed);
        for _ in 0..SHARDS {
            // Each shard has its turn among those with the same class.
            let shards = (0..SHARDS).map(|shard| (turn + shard) % SHARDS);
            let (expected, shard) = shards.map(|shard| (lowest_class(shard), shard)).min_by_key(|(class, _)| *class)?;
            let mut records = self.lock(shard);
            let class = records.lowest_class();
            // Another thread may have evicted the last record of that class.
            if class <= expected {
                let victim =
                    |record: &mut KeyRecord| Victim { line: record.line, fingerprint: record.fingerprint, class };
                return records.first().map(victim);
            }
        }
        None
    }

    /// Returns the class of the record at a place, whose line the caller holds.
    pub(super) fn class(&self, place: u64) -> usize {
        let (shard, place) = split(place);
        self.lock(shard).class(place)
    }

    /// Returns the line and fingerprint of a record to [move](Self::move_down), while a shard has many vacant entries.
    pub(super) fn record_to_move(&self) -> Option<(usize, u64)> {
        let sparse = self.sparse.load(Ordering::Relaxed);
        if sparse == 0 {
            return None;
        }
        let last = |records: &mut Slab<KeyRecord>| records.last().map(|record| (record.line, record.fingerprint));
        self.with_shard(sparse.trailing_zeros() as usize, last)
    }

    /// Moves the record at a place, whose line the caller holds, to a vacant place before it, so that the end can be freed.
    /// Returns its place.
    pub(super) fn move_down(&self, place: u64) -> u64 {
        let (shard, place) = split(place);
        place_in(shard, self.with_shard(shard, |records| records.move_down(place)))
    }

    /// Returns how many entries there are, vacant ones included.
    #[cfg(all(test, not(loom)))]
    pub(super) fn entries(&self) -> usize {
        (0..SHARDS).map(|shard| self.lock(shard).len()).sum()
    }

    /// Classifies a few records of a shard again.
    fn reclassify(&self, shard: usize, start: usize, now: Timestamp) {
        self.with_shard(shard, |records| {
            for place in start..start + RECLASSIFIED.min(records.len()) {
                let place = place % records.len();
                // A state that was moved out for a step belongs to a key in use.
                let record = records.get_mut(place).filter(|record| record.state != State::New);
                if let Some(class) = record.map(|record| record.eviction_class(now)) {
                    records.set_class(place, class);
                }
            }
        });
    }

    /// Calls `work` with a record, and counts the bytes that it adds or frees.
    fn update<R>(&self, records: &mut Slab<KeyRecord>, place: usize, work: impl FnOnce(&mut KeyRecord) -> R) -> R {
        let record = records.get_mut(place).expect("a slot points to it");
        let before = record.bytes();
        let result = work(record);
        let after = record.bytes();
        self.bytes.fetch_add(after, Ordering::Relaxed);
        self.bytes.fetch_sub(before, Ordering::Relaxed);
        result
    }

    /// Calls `work` with the records of a shard, which it may add, remove and classify.
    fn with_shard<R>(&self, shard: usize, work: impl FnOnce(&mut Slab<KeyRecord>) -> R) -> R {
        let mut records = self.lock(shard);
        let result = work(&mut records);
        self.publish(shard, &records);
        result
    }

    /// Publishes the values that threads read before they lock a shard.
    fn publish(&self, shard: usize, records: &Slab<KeyRecord>) {
        self.shards[shard].lowest_class.store(records.lowest_class(), Ordering::Relaxed);
        let (bit, sparse) = (1 << shard, self.sparse.load(Ordering::Relaxed));
        match records.is_sparse() {
            true if sparse & bit == 0 => _ = self.sparse.fetch_or(bit, Ordering::Relaxed),
            false if sparse & bit != 0 => _ = self.sparse.fetch_and(!bit, Ordering::Relaxed),
            _ => {}
        }
    }

    fn lock(&self, shard: usize) -> MutexGuard<'_, Slab<KeyRecord>> {
        // Nothing that runs under this lock panics halfway: states are moved in and out whole.
        self.shards[shard].records.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Returns the number of a place in a shard.
fn place_in(shard: usize, place: usize) -> u64 {
    (place * SHARDS + shard) as u64
}

/// Returns the shard of a place, and the place in it.
fn split(place: u64) -> (usize, usize) {
    (place as usize % SHARDS, place as usize / SHARDS)
}
