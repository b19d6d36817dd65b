//! A limiter with one limit, called until it denies.
//!
//! `cargo run -p tidegate-examples --example first_steps`

use std::error::Error;

use tidegate::{Limiter, Quota, ceil_millis, seconds};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    // 2 per second for each key, and up to 5 at once. Without a store, the limiter counts in memory.
    let limiter = Limiter::builder().limit("send", Quota::token_bucket(2, seconds(1))?.capacity(5)?).build()?;

    for attempt in 1..=7 {
        let decision = limiter.limit("send", "alice").await?;
        if decision.allowed() {
            println!("alice, attempt {attempt}: allowed, {} of {} left", decision.remaining(), decision.limit());
        } else if let Some(wait) = decision.retry_after() {
            println!("alice, attempt {attempt}: denied, again in {} ms", ceil_millis(wait));
        }
    }

    // Another key has a budget of its own.
    let decision = limiter.limit("send", "bob").cost(3).await?;
    println!("bob, for 3 at once: allowed = {}, {} left", decision.allowed(), decision.remaining());

    // A denial is an answer. An error is a mistake in the call, or a broken store.
    let error = limiter.limit("sned", "bob").await.unwrap_err();
    println!("error: {error}");

    // Converts a denial into an error, for use with `?`.
    if let Err(denied) = limiter.limit("send", "bob").cost(9).await?.into_result() {
        println!("bob, for 9 at once: {denied}");
    }
    Ok(())
}
