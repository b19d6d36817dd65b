//! The wrappers are stores: the conformance suite around a memory store.

use tidegate::resilience::{Breaker, Counted, Denials, Fallback, Observed, Resilience, Timeout};
use tidegate::{ManualClock, MemoryStore, millis};
use tidegate_testkit::{Subject, conformance_tests};

fn memory() -> MemoryStore {
    MemoryStore::builder().max_keys(10_000).build()
}

conformance_tests!(timeout, Subject::new(Timeout::new(memory(), millis(50), ManualClock::default())));
conformance_tests!(breaker, Subject::new(Breaker::new(memory(), "memory")));
conformance_tests!(fallback, Subject::new(Fallback::new(memory())));
conformance_tests!(denials, Subject::new(Denials::new(memory())));
conformance_tests!(observed, Subject::new(Observed::new(memory(), "memory")));
conformance_tests!(counted, Subject::new(Counted::new(memory())));
conformance_tests!(resilient, Subject::new(Resilience::new(ManualClock::default()).build(memory())));
