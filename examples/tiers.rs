//! Free and premium plans under one name: one limit, and a quota for each call.
//!
//! `cargo run -p tidegate-examples --example tiers`

use std::error::Error;

use tidegate::{Limiter, Quota, minutes};

struct Customer {
    name: &'static str,
    is_premium: bool,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let free = Quota::sliding_log(3, minutes(1))?;
    let premium = Quota::sliding_log(10, minutes(1))?;
    let limiter = Limiter::builder().limit("export", free).build()?;

    let mut ada = Customer { name: "ada", is_premium: false };
    for attempt in 1..=6 {
        let quota = if ada.is_premium { premium } else { free };
        let decision = limiter.limit("export", ada.name).with_quota(&quota).await?;
        let tier = if ada.is_premium { "premium" } else { "free" };
        println!(
            "{}, {tier}, attempt {attempt}: allowed = {}, {} of {} left",
            ada.name,
            decision.allowed(),
            decision.remaining(),
            decision.limit()
        );
        // Used units are kept when the tier changes: 3 of 10, and the denied attempt took nothing.
        if !decision.allowed() {
            println!("{} pays", ada.name);
            ada.is_premium = true;
        }
    }
    Ok(())
}
