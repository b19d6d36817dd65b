//! Several limits at once, all or nothing: a request that one limit denies takes nothing from the others.
//!
//! `cargo run -p tidegate-examples --example several_limits`

use std::error::Error;

use tidegate::{Key, Limiter, Quota, ceil_seconds, minutes, seconds};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let limiter = Limiter::builder()
        .limit("user", Quota::sliding_log(2, minutes(1))?)
        .limit("tenant", Quota::token_bucket(5, seconds(1))?)
        .limit("everybody", Quota::token_bucket(1_000, seconds(1))?)
        .build()?;

    for user in ["alice", "alice", "alice", "bob"] {
        let all = limiter
            .limit_all([
                limiter.limit("user", ("acme", user)),
                limiter.limit("tenant", "acme"),
                limiter.limit("everybody", Key::GLOBAL),
            ])
            .await?;
        let left: Vec<_> = all.decisions().iter().map(|decision| decision.remaining()).collect();
        if all.allowed() {
            println!("{user}: allowed, left for the user, the tenant and everybody: {left:?}");
        } else if let Some(wait) = all.retry_after() {
            // The denied request took nothing from the tenant.
            println!("{user}: denied for {} s, left: {left:?}", ceil_seconds(wait));
        }
    }
    Ok(())
}
