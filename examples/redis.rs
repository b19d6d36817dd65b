//! Limits that a whole fleet shares, on Redis or Valkey, and their behaviour during an outage of the server.
//!
//! `cargo run -p tidegate-examples --example redis -- redis://127.0.0.1/`. Without an argument, the server is that of
//! `TIDEGATE_REDIS_URL`.

use std::error::Error;

use tidegate::redis::RedisStore;
use tidegate::resilience::Resilience;
use tidegate::{Clock, Limit, Limiter, OnStoreError, Quota, SystemClock, ceil_seconds, minutes, seconds};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = std::env::args().nth(1).or_else(|| std::env::var("TIDEGATE_REDIS_URL").ok());
    let server = server.ok_or("which server? give an address, such as redis://127.0.0.1/")?;
    let redis = RedisStore::builder().hash_keys("from your secrets").connect(server).await?;

    let limiter = Limiter::builder()
        .prefix(format!("example-{}", SystemClock.now().as_micros())) // every run starts with new keys
        // Fails closed: an outage admits no login.
        .limit("login", Limit::new(Quota::fixed_window(2, minutes(1))?).on_store_error(OnStoreError::Closed))
        // During an outage, each of four processes admits a quarter of the quota.
        .limit("api", Limit::new(Quota::token_bucket(100, seconds(1))?).on_store_error(OnStoreError::Local))
        // No call takes longer than 50 ms. After five failures in a row, the breaker skips the server for a second.
        .store(redis)
        .resilience(Resilience::default().name("redis").expected_replicas(4))
        .build()?;

    for attempt in 1..=3 {
        let decision = limiter.limit("login", "alice").await?;
        if decision.allowed() {
            println!("attempt {attempt}: allowed, {} left", decision.remaining());
        } else if let Some(wait) = decision.retry_after() {
            println!("attempt {attempt}: denied, try again in {} s", ceil_seconds(wait));
        }
    }
    let all = limiter.limit_all([limiter.limit("api", "alice"), limiter.limit("login", "bob")]).await?;
    println!("both or nothing: {}", if all.allowed() { "both" } else { "nothing" });
    Ok(())
}
