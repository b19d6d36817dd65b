//! Snapshots of a memory store: saved when a process ends, loaded when the next one starts.

mod checksum;
#[cfg(all(test, not(loom)))]
mod tests;

use std::collections::HashMap;
use std::collections::hash_map;
use std::io::{self, Read, Write};

use tidegate_core::{Key, Quota, Scope};

use super::overflow::KeyRecord;
use super::slot::FINGERPRINT_BITS;
use super::table::Table;
use super::{MemoryStore, MemoryStoreBuilder};
use crate::store::codec::{F64_EXACT_LIMIT, decode_quota, encode_quota, state_from_numbers, state_to_numbers};
use checksum::{Checksum, ChecksumReader, ChecksumWriter};

// Numbers are little-endian.
//
// head: MAGIC, VERSION (4 bytes), the four secrets of the hash (8 each), the witness of the hash (8), lines of the
// table (8)
// key:  quota (4), fingerprint (5), line (8), count of numbers (4), the numbers of its state (8 each)
// tail: END_MARK (4), count of keys (8), the checksum of everything before it (8)
//
// Quotas are numbered in order of appearance. The first key of a quota has the next free number, followed by the quota:
// its length (1) and its bytes. Quota and numbers have the format of every store outside of this process.
const MAGIC: [u8; 16] = *b"tidegate memory\n";
const VERSION: u32 = 1;
const END_MARK: u32 = u32::MAX;

const FINGERPRINT_BYTES: usize = FINGERPRINT_BITS as usize / 8;

/// The error of a snapshot that was not loaded, not even in part.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The snapshot could not be read.
    #[error("the snapshot could not be read: {0}")]
    Io(#[from] io::Error),
    /// The file is not a snapshot.
    #[error("this is not a snapshot of a memory store: check the path")]
    Foreign,
    /// This version does not know the format.
    #[error(
        "the snapshot has format {0} and this version knows {VERSION}: use the version that saved it, or remove it, which \
         forgets every key"
    )]
    Version(u32),
    /// The snapshot ends too early, or has changed since it was written.
    #[error("the snapshot is damaged, {0}: use a copy, or remove it, which forgets every key")]
    Damaged(&'static str),
    /// The snapshot is of a table of another size. The place of a key depends on its whole hash, and a table keeps only
    /// a part of the hash.
    #[error(
        "the snapshot is of a store with room for {saved} keys and this one has room for {wanted}: set max_keys to \
         {saved}, or remove the snapshot, which forgets every key"
    )]
    Size {
        /// A `max_keys` with which the snapshot can be loaded.
        saved: usize,
        /// The number of keys that this store has room for.
        wanted: usize,
    },
    /// The program that saved it hashes keys differently, so no key would be found.
    #[error(
        "the snapshot was saved by a build that hashes keys in another way: use that build, or remove the snapshot, which \
         forgets every key"
    )]
    Hash,
}

impl MemoryStore {
    /// Saves every key that is not as good as new, for [`MemoryStoreBuilder::load`]. Returns the number of keys.
    ///
    /// **Keep the file private**, readable for its owner only. It contains the secrets of the hash. A client that knows
    /// them can choose keys that collide, to share the quota of another key or to evict it. The file has no key's text.
    /// Write it under another name and rename it when this has returned. Then a crash leaves the last file complete.
    ///
    /// The store does not change, and other threads may use it meanwhile. Every key that exists all the time is saved
    /// with a state that it has during the call. The states are not of one moment, so units taken meanwhile may be
    /// missing in the file. A key that moves in the table meanwhile may be saved and counted twice. The later state
    /// counts.
    ///
    /// | state | bytes |
    /// | --- | --- |
    /// | token bucket, fixed window | 37 |
    /// | sliding window | 37, and 8 for each bucket |
    /// | sliding log | 37, and 16 for each microsecond with requests in the period |
    /// | leases | 29, and 24 for each lease |
    ///
    /// Each quota takes up to 40 bytes, once. A state of a time after the year 2255 is left out.
    ///
    /// ```
    /// use tidegate::MemoryStore;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut file = Vec::new();
    /// MemoryStore::new().save(&mut file)?;
    /// let store = MemoryStore::builder().load(&file[..])?;
    /// # Ok(()) }
    /// ```
    pub fn save(&self, out: impl Write) -> io::Result<u64> {
        let mut out = ChecksumWriter::new(out);
        out.write(&MAGIC)?;
        out.write(&VERSION.to_le_bytes())?;
        for number in self.secrets.into_iter().chain([self.hash_witness(), self.table.lines as u64]) {
            out.write(&number.to_le_bytes())?;
        }
        let mut quotas = HashMap::new();
        let mut keys = 0;
        self.table.scan(self.clock.now(), |record| {
            if record.state.last().is_some_and(|last| u128::from(last.as_micros()) < F64_EXACT_LIMIT) {
                keys += 1;
                write_key(&mut out, &mut quotas, &record)?;
            }
            io::Result::Ok(())
        })?;
        out.write(&END_MARK.to_le_bytes())?;
        out.write(&u64::to_le_bytes(keys))?;
        out.finish()?;
        Ok(keys)
    }

    /// Returns a hash of hashes, which differs if keys are hashed differently. That depends on the version of the hash,
    /// and on the processor features that the program is built for.
    fn hash_witness(&self) -> u64 {
        let scope = Scope::new("witness", "of the hash");
        let text = "0123456789".repeat(20);
        // Texts of every length, because the hash treats long and short ones differently.
        let parts = (0..=text.len()).map(|length| Key::from(&text[..length]));
        let keys = parts.chain([Key::GLOBAL, Key::from(7_u64), Key::from(("a", "b"))]);
        let mut sum = Checksum::default();
        keys.for_each(|key| sum.add(&self.hash.hash(&scope, &key).to_le_bytes()));
        sum.get()
    }
}

impl MemoryStoreBuilder {
    /// Builds a store that continues where a [saved](MemoryStore::save) one stopped. Every key has its saved usage,
    /// minus the units replenished since.
    ///
    /// The snapshot's secrets replace the [`seed`](MemoryStoreBuilder::seed).
    /// [`max_keys`](MemoryStoreBuilder::max_keys) must be the same as before. A store of another size is an
    /// [error](SnapshotError::Size), because a table keeps too little of a key's hash to place it in another table.
    /// `max_bytes` and quotas may change: a key keeps its usage, as after a reload.
    ///
    /// The result is a complete and undamaged snapshot, or an error. No content of the file makes it take more memory
    /// than the store's. Times are those of the system, so they have the same meaning in the next process. If the
    /// system's clock has gone back meanwhile, keys wait for it, as they would have in the process that saved them. If
    /// the clock was far ahead by mistake, remove the file.
    pub fn load(self, input: impl Read) -> Result<MemoryStore, SnapshotError> {
        let mut input = ChecksumReader::new(input);
        if input.read_array()? != MAGIC {
            return Err(SnapshotError::Foreign);
        }
        match u32::from_le_bytes(input.read_array()?) {
            VERSION => {}
            other => return Err(SnapshotError::Version(other)),
        }
        let [a, b, c, d, witness, lines] = input.read_numbers()?;
        let store = self.build_with([a, b, c, d]);
        let now = store.clock.now();
        let mut quotas = Vec::new();
        let mut keys = 0;
        let wanted = store.table.lines;
        // The checksum comes last, and distinguishes another size or hash from damage.
        let fits = lines == wanted as u64 && witness == store.hash_witness();
        while let Some(record) = read_key(&mut input, &mut quotas, lines)? {
            keys += 1;
            if fits {
                store.table.restore(&record, now);
            }
        }
        if u64::from_le_bytes(input.read_array()?) != keys {
            return Err(SnapshotError::Damaged("keys are missing"));
        }
        input.finish()?;
        if lines != wanted as u64 {
            let saved = Table::keys_for(usize::try_from(lines).unwrap_or(usize::MAX));
            return Err(SnapshotError::Size { saved, wanted: Table::keys_for(wanted) });
        }
        if fits { Ok(store) } else { Err(SnapshotError::Hash) }
    }
}

fn write_key(
    out: &mut ChecksumWriter<impl Write>,
    quotas: &mut HashMap<Quota, u32>,
    record: &KeyRecord,
) -> io::Result<()> {
    let next = quotas.len() as u32;
    match quotas.entry(record.quota) {
        hash_map::Entry::Occupied(known) => out.write(&known.get().to_le_bytes())?,
        hash_map::Entry::Vacant(unknown) => {
            let bytes = encode_quota(unknown.key());
            unknown.insert(next);
            out.write(&next.to_le_bytes())?;
            out.write(&[bytes.len() as u8])?;
            out.write(&bytes)?;
        }
    }
    out.write(&record.fingerprint.to_le_bytes()[..FINGERPRINT_BYTES])?;
    out.write(&(record.line as u64).to_le_bytes())?;
    let numbers = state_to_numbers(&record.state);
    let count =
        u32::try_from(numbers.len()).map_err(|_| io::Error::other("a sliding log with billions of requests"))?;
    out.write(&count.to_le_bytes())?;
    numbers.into_iter().try_for_each(|number| out.write(&number.to_le_bytes()))
}

/// Reads the next key, or returns `None` at the end.
fn read_key(
    input: &mut ChecksumReader<impl Read>,
    quotas: &mut Vec<Quota>,
    lines: u64,
) -> Result<Option<KeyRecord>, SnapshotError> {
    let number = u32::from_le_bytes(input.read_array()?);
    if number == END_MARK {
        return Ok(None);
    }
    if number as usize == quotas.len() {
        let [len] = input.read_array()?;
        let bytes = input.read_bytes(len)?;
        quotas.push(decode_quota(&bytes).map_err(|_| SnapshotError::Damaged("a quota in it cannot be"))?);
    }
    let quota = *quotas.get(number as usize).ok_or(SnapshotError::Damaged("a quota is missing"))?;
    let mut fingerprint = [0; 8];
    fingerprint[..FINGERPRINT_BYTES].copy_from_slice(&input.read_array::<FINGERPRINT_BYTES>()?);
    let fingerprint = u64::from_le_bytes(fingerprint);
    let [line] = input.read_numbers()?;
    if fingerprint == 0 || line >= lines {
        return Err(SnapshotError::Damaged("a key in it cannot be"));
    }
    let count = u32::from_le_bytes(input.read_array()?);
    // Grows with the data that is read, and not with the announced count.
    let mut numbers = Vec::new();
    for _ in 0..count {
        let [number] = input.read_numbers()?;
        numbers.push(number);
    }
    let state = state_from_numbers(&quota, &numbers).map_err(|_| SnapshotError::Damaged("a state in it cannot be"))?;
    Ok(Some(KeyRecord { fingerprint, line: line as usize, quota, state }))
}
