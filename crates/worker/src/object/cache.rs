//! A cache of the keys that are used most, in the memory of an object.

use std::collections::BTreeMap;

use tidegate::Quota;
use tidegate::store::State;

/// The approximate size bound of a cache. All objects may share the 128 MB of one isolate.
const MAX_BYTES: usize = 256 << 10;
/// The size of an entry without its name and the heap memory of its state.
const ENTRY_BASE_BYTES: usize = 256;

/// A state and the quota it was written under.
pub(crate) type CacheEntry = (Quota, State);

/// A cache of recent entries, as they are in the storage. Writes go to the storage first, so an evicted entry can be
/// read again.
///
/// It has two generations. A used entry moves into the young one. When the young one is full, it replaces the old one,
/// which is dropped. So entries that are used often stay.
///
/// It is a tree and not a hash map: clients choose keys, and in a Worker the standard library's hash has no secret.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    young: BTreeMap<String, CacheEntry>,
    old: BTreeMap<String, CacheEntry>,
    /// The size of the young generation in bytes.
    size: usize,
}

impl Cache {
    /// Takes an entry out. The caller puts it back as it is afterwards.
    pub(crate) fn take(&mut self, name: &str) -> Option<CacheEntry> {
        if let Some(entry) = self.young.remove(name) {
            self.size = self.size.saturating_sub(size(name, &entry));
            return Some(entry);
        }
        self.old.remove(name)
    }

    /// Puts an entry in, as it is in the storage.
    pub(crate) fn put(&mut self, name: String, entry: CacheEntry) {
        self.size += size(&name, &entry);
        self.young.insert(name, entry);
        if self.size > MAX_BYTES / 2 {
            self.old = std::mem::take(&mut self.young);
            self.size = 0;
        }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }
}

fn size(name: &str, (_, state): &CacheEntry) -> usize {
    ENTRY_BASE_BYTES + name.len() + state.heap_bytes()
}

#[cfg(test)]
mod tests {
    use tidegate::{Timestamp, seconds};

    use super::*;

    fn entry(deficit: u64) -> CacheEntry {
        let quota = Quota::fixed_window(10, seconds(1)).unwrap();
        (quota, State::FixedWindow { deficit, last: Timestamp::EPOCH })
    }

    #[test]
    fn flood_of_keys_is_bounded_and_evicts_no_busy_key() {
        let mut cache = Cache::default();
        for number in 0..200_000 {
            let busy = cache.take("busy").unwrap_or_else(|| entry(0));
            cache.put("busy".to_owned(), busy);
            cache.put(format!("key-{number}"), entry(number));
        }
        assert!(cache.len() * (ENTRY_BASE_BYTES + 10) <= MAX_BYTES, "{}", cache.len());
        assert_eq!(cache.take("busy"), Some(entry(0)));
        assert_eq!(cache.take("key-0"), None);
        assert_eq!(cache.take("key-199999"), Some(entry(199_999)));
    }
}
