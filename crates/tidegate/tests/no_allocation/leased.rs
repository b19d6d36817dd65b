//! A decision from what is in hand, allowed or denied.

use tidegate::{Leased, Limiter, ManualClock, MemoryStore, Quota, Timestamp, hours};
use tokio::runtime::Builder;

use crate::counting::counted;

#[test]
fn a_decision_from_what_is_in_hand_allocates_nothing() {
    let clock = ManualClock::new(Timestamp::from_millis(1_800_000_000_000));
    let shared = MemoryStore::builder().max_keys(1_000).clock(clock.clone()).build();
    let limiter = Limiter::builder()
        .limit("api", Quota::fixed_window(16_000, hours(1)).unwrap())
        .store(Leased::builder().sleeper(clock).build(shared))
        .build()
        .unwrap();
    let runtime = Builder::new_current_thread().build().unwrap();
    let take = || limiter.limit("api", "alice").now().map(|answer| answer.unwrap().allowed());
    runtime.block_on(async {
        for _ in 0..100 {
            assert!(limiter.limit("api", "alice").await.unwrap().allowed());
        }
    });
    // Outside of the runtime, so that nothing is fetched.
    assert_eq!(counted(take), (Some(true), 0));
    runtime.block_on(async { while limiter.limit("api", "alice").await.unwrap().allowed() {} });
    assert_eq!(counted(take), (Some(false), 0));
}
