//! Where a replay keeps the state of its keys.

use std::sync::Arc;

use tidegate::{LimiterBuilder, ManualClock, MemoryStore};

use super::outside::Outside;
use crate::cli::Room;
use crate::failure::Failure;
use crate::store::StoreUrl;

/// A store whose clock is the trace's.
pub(crate) struct Place {
    store: PlaceStore,
    pub(super) clock: ManualClock,
}

enum PlaceStore {
    /// This process's memory: the answers are there at once.
    Memory(Arc<MemoryStore>),
    Outside(Outside),
}

impl Place {
    /// This process's memory, with so much room.
    pub(crate) fn memory(room: Room) -> Self {
        let clock = ManualClock::default();
        let store = room.builder().clock(clock.clone()).seed(0).build();
        Place { store: PlaceStore::Memory(Arc::new(store)), clock }
    }

    /// The store at `url`; when that is memory, with so much room.
    pub(super) fn open(url: &StoreUrl, room: Room) -> Result<Self, Failure> {
        let clock = ManualClock::default();
        match Outside::open(url, &clock)? {
            Some(outside) => Ok(Place { store: PlaceStore::Outside(outside), clock }),
            None => Ok(Place::memory(room)),
        }
    }

    pub(super) fn give(&self, limiter: LimiterBuilder) -> LimiterBuilder {
        match &self.store {
            PlaceStore::Memory(store) => limiter.store(Arc::clone(store)),
            PlaceStore::Outside(outside) => limiter.store(Arc::clone(&outside.store)),
        }
    }

    /// Leaves nothing behind. Nothing can be asked afterwards.
    pub(super) fn finish(&mut self) -> Result<(), Failure> {
        match &mut self.store {
            PlaceStore::Memory(_) => Ok(()),
            PlaceStore::Outside(outside) => outside.finish(),
        }
    }

    /// How many keys there were, for people; and whether there was room for them.
    pub(super) fn summary(&self) -> (String, Option<String>) {
        let store = match &self.store {
            PlaceStore::Memory(store) => store,
            PlaceStore::Outside(outside) => return (outside.summary(), None),
        };
        // What is as good as new is forgotten sooner or later; now, so that the number is the same in every run.
        store.sweep();
        let stats = store.stats();
        let warning = (stats.forgotten_busy > 0).then(|| {
            format!(
                "warning: there was no room for all keys, and {} of them were forgotten while they were in use: each got its \
                 quota back, so these decisions are not exact. Try again with a larger --max-keys, or where \
                 limits are sliding logs or the like with a larger --max-bytes\n",
                stats.forgotten_busy
            )
        });
        (format!("keys held at the end: {}\n", stats.keys), warning)
    }
}
