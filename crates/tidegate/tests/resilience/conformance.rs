//! The conformance suite on every wrapper around a memory store.

use tidegate::resilience::{
    BreakerStore, DenialCacheStore, FallbackStore, InstrumentedStore, Resilience, TimeoutStore,
};
use tidegate::{ManualClock, MemoryStore, millis};
use tidegate_testkit::{Subject, conformance_tests};

fn memory() -> MemoryStore {
    MemoryStore::builder().max_keys(10_000).build()
}

conformance_tests!(timeout, Subject::new(TimeoutStore::new(memory(), millis(50), ManualClock::default())));
conformance_tests!(breaker, Subject::new(BreakerStore::new(memory(), "memory")));
conformance_tests!(fallback, Subject::new(FallbackStore::new(memory())));
conformance_tests!(denials, Subject::new(DenialCacheStore::new(memory())));
conformance_tests!(observed, Subject::new(InstrumentedStore::new(memory(), "memory")));
conformance_tests!(resilient, Subject::new(Resilience::new(ManualClock::default()).build(memory())));
