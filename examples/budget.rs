//! A budget for costs that are known only afterwards: `cargo run -p tidegate-examples --example budget`

use std::error::Error;

use tidegate::budget::Budget;
use tidegate::{Limiter, ManualClock, MemoryStore, Quota, minutes, seconds};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    // A manual clock, so that every run has the same output.
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
    if let Some(short) = short.hold() {
        println!("one cost 900:    {:?}, {} left", short.settle(900).await?, left().await?);
        println!("settled again:   {:?}, {} left", short.settle(900).await?, left().await?);
    }

    // The server drops a stream when its client disconnects, and the guard with it.
    let mut guard = budget.hold("alice", 4_000).await?.into_guard()?;
    guard.record(150);
    drop(guard);
    println!("one was cut off after 150: {} left", left().await?);

    // Another process settles with the token, once. Here it is another budget.
    let worker = Budget::with_clock(&limiter, "tokens", "holds", clock.clone());
    if let Some(long) = long.hold() {
        let hold = worker.resume(&long.to_token()?)?;
        println!("one cost 12,000: {:?}, {} left", hold.settle(12_000).await?, left().await?);
        println!("a second time:   {:?}", long.settle(12_000).await?);
    }
    let denied = limiter.limit("tokens", "alice").await?;
    println!("the debt is paid first: try again in {:?}", denied.retry_after());
    Ok(())
}
