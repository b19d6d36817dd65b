//! The keys that are asked for most, in the object's memory.

use std::collections::BTreeMap;

use tidegate::Quota;
use tidegate::store::State;

/// How much is kept, in bytes, roughly: all objects may share the 128 MB of one isolate.
const MOST: usize = 256 << 10;
/// What an entry takes beside its name and what its state has on the heap.
const ENTRY: usize = 256;

/// A state and the quota it was written under.
pub(crate) type Held = (Quota, State);

/// What was read or written lately, as it is in the storage: everything is written there first, so whatever is forgotten
/// here, with the object or without, can be read again.
///
/// Two generations: what is asked for moves into the young one, and when that is full, the old one is dropped and the
/// young one takes its place. So what is asked for often stays.
///
/// Not hashed: clients choose keys, and in a Worker the standard library's hash is keyed with no secret.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    young: BTreeMap<String, Held>,
    old: BTreeMap<String, Held>,
    /// Of the young ones.
    size: usize,
}

impl Cache {
    /// Takes a key out, to be put back as it is afterwards.
    pub(crate) fn take(&mut self, name: &str) -> Option<Held> {
        if let Some(held) = self.young.remove(name) {
            self.size = self.size.saturating_sub(size(name, &held));
            return Some(held);
        }
        self.old.remove(name)
    }

    /// Keeps a key as it is in the storage.
    pub(crate) fn put(&mut self, name: String, held: Held) {
        self.size += size(&name, &held);
        self.young.insert(name, held);
        if self.size > MOST / 2 {
            self.old = std::mem::take(&mut self.young);
            self.size = 0;
        }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }
}

fn size(name: &str, (_, state): &Held) -> usize {
    ENTRY + name.len() + state.heap_bytes()
}

#[cfg(test)]
mod tests {
    use tidegate::{Timestamp, seconds};

    use super::*;

    fn held(deficit: u64) -> Held {
        let quota = Quota::fixed_window(10, seconds(1)).unwrap();
        (quota, State::FixedWindow { deficit, last: Timestamp::EPOCH })
    }

    #[test]
    fn a_flood_of_keys_is_bounded_and_leaves_the_busy_one() {
        let mut cache = Cache::default();
        for number in 0..200_000 {
            let busy = cache.take("busy").unwrap_or_else(|| held(0));
            cache.put("busy".to_owned(), busy);
            cache.put(format!("key-{number}"), held(number));
        }
        assert!(cache.len() * (ENTRY + 10) <= MOST, "{}", cache.len());
        assert_eq!(cache.take("busy"), Some(held(0)));
        assert_eq!(cache.take("key-0"), None);
        assert_eq!(cache.take("key-199999"), Some(held(199_999)));
    }
}
