//! A budget for costs that are known only afterwards: `cargo run -p tidegate-examples --example budget`

use std::error::Error;

use tidegate::budget::Budget;
use tidegate::{Limiter, ManualClock, MemoryStore, Quota, minutes, seconds};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    // A clock that stands still but for what is advanced, so that this is the same every time.
    let clock = ManualClock::default();
    let limiter = Limiter::builder()
        .store(MemoryStore::builder().max_keys(1_024).clock(clock.clone()).build())
        .limit("tokens", Quota::token_bucket(10_000, minutes(1))?)
        .limit("holds", Quota::concurrency(2, seconds(30))?) // two calls of the model at once, for 30 seconds
        .build()?;
    let budget = Budget::with_clock(&limiter, "tokens", "holds", clock.clone());
    let left = async || limiter.check("tokens", "alice").await.map(|decision| decision.remaining());

    let (short, long) = (budget.hold("alice", 4_000).await?, budget.hold("alice", 4_000).await?);
    println!("two answers of at most 4,000 tokens are held:   {} left", left().await?);

    let third = budget.hold("alice", 4_000).await?;
    println!("a third has to wait: {:?}", third.decision().reason());

    clock.advance(seconds(3));
    if let (Some(short), Some(long)) = (short.hold(), long.hold()) {
        println!("one cost 900:    {:?}, {} left", short.settle(900).await?, left().await?);
        println!("to say so again: {:?}, {} left", short.settle(900).await?, left().await?);
        println!("one cost 12,000: {:?}, {} left", long.settle(12_000).await?, left().await?);
    }
    let denied = limiter.limit("tokens", "alice").await?;
    println!("what was too much is paid back first: try again in {:?}", denied.retry_after());
    Ok(())
}
