//! Waiting instead of being denied: a worker that calls an API which accepts 10 per second.
//!
//! `cargo run -p tidegate-examples --example acquire`

use std::error::Error;

use tidegate::{Clock, Key, Limiter, Quota, SystemClock, millis, seconds};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    // With the feature `tokio`, `acquire` waits on tokio's timer.
    let limiter = Limiter::builder().limit("api", Quota::token_bucket(10, seconds(1))?.capacity(3)?).build()?;

    let start = SystemClock.now();
    for call in 1..=8 {
        let decision = limiter.acquire("api", Key::GLOBAL, seconds(1)).await?;
        let waited = SystemClock.now().since(start);
        println!("call {call}: allowed = {}, {} ms after the start", decision.allowed(), waited.as_millis());
    }

    // A wait that would be longer than accepted is denied at once.
    let before = SystemClock.now();
    let decision = limiter.acquire("api", Key::GLOBAL, millis(50)).cost(3).await?;
    let waited = SystemClock.now().since(before);
    println!(
        "3 more within 50 ms: allowed = {}, after {} ms; it would take {:.0?}",
        decision.allowed(),
        waited.as_millis(),
        decision.retry_after().unwrap_or_default()
    );
    Ok(())
}
