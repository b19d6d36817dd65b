//! The store of a limiter.

use std::any::Any;
use std::ops::Deref;
use std::sync::Arc;

use tidegate_core::{Decision, DynStore, Request, Store, StoreError};

use crate::store::memory::{MemoryStore, QuotaNumber};

/// The store of a limiter. The one in memory is known by its type, so that a decision is compiled into whoever asks for it: what is
/// known there, such as the operation and its cost, is not looked at again, and what nobody looks at is not worked out.
pub(super) enum AnyStore {
    Memory(Arc<MemoryStore>),
    Other(Box<dyn DynStore>),
}

impl AnyStore {
    pub(super) fn new<S: Store + 'static>(store: S) -> Self {
        let mut store = Some(store);
        match taken(&mut store).map(Arc::new).or_else(|| taken(&mut store)) {
            Some(memory) => AnyStore::Memory(memory),
            None => AnyStore::Other(Box::new(store.expect("it is of another type"))),
        }
    }

    /// [`Store::apply_now`], for the call that is made most. `number` is of its quota, if that is one of the limiter's.
    #[inline(always)]
    pub(super) fn apply_now(
        &self,
        request: &Request<'_>,
        number: Option<&QuotaNumber>,
    ) -> Option<Result<Decision, StoreError>> {
        match self {
            AnyStore::Memory(memory) => Some(Ok(memory.decide(request, number))),
            // With a key of its own: one that is looked at from elsewhere would have to be in memory for the first store as well.
            AnyStore::Other(store) => store.dyn_apply_now(&Request { key: &request.key.borrow(), ..*request }),
        }
    }
}

/// What is in an `Option`, if that is one of a `T`.
fn taken<T: 'static>(option: &mut dyn Any) -> Option<T> {
    option.downcast_mut::<Option<T>>()?.take()
}

impl Deref for AnyStore {
    type Target = dyn DynStore;

    fn deref(&self) -> &Self::Target {
        match self {
            AnyStore::Memory(memory) => &**memory,
            AnyStore::Other(store) => &**store,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resilience::Fallback;

    #[test]
    fn the_store_in_memory_is_known_alone_and_shared() {
        let shared = Arc::new(MemoryStore::new());
        assert!(matches!(AnyStore::new(MemoryStore::new()), AnyStore::Memory(_)));
        assert!(matches!(AnyStore::new(Arc::clone(&shared)), AnyStore::Memory(known) if Arc::ptr_eq(&known, &shared)));
        assert!(matches!(AnyStore::new(Fallback::new(shared)), AnyStore::Other(_)));
    }
}
