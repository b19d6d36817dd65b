//! Decisions of a two-tier store in process, allowed and denied.

use tidegate::{Limiter, ManualClock, MemoryStore, Quota, Timestamp, TwoTierStore, hours};
use tokio::runtime::Builder;

use crate::counting::count_allocations;

#[test]
fn decision_from_the_balance_allocates_nothing() {
    let clock = ManualClock::new(Timestamp::from_millis(1_800_000_000_000));
    let shared = MemoryStore::builder().max_keys(1_000).clock(clock.clone()).build();
    let limiter = Limiter::builder()
        .limit("api", Quota::fixed_window(16_000, hours(1)).unwrap())
        .bare_store(TwoTierStore::builder().sleeper(clock).build(shared))
        .build()
        .unwrap();
    let runtime = Builder::new_current_thread().build().unwrap();
    let take = || limiter.limit("api", "alice").try_now().ok().map(|decision| decision.allowed());
    runtime.block_on(async {
        for _ in 0..100 {
            assert!(limiter.limit("api", "alice").await.unwrap().allowed());
        }
    });
    // Outside of the runtime, so that nothing is fetched.
    assert_eq!(count_allocations(take), (Some(true), 0));
    runtime.block_on(async { while limiter.limit("api", "alice").await.unwrap().allowed() {} });
    assert_eq!(count_allocations(take), (Some(false), 0));
}
