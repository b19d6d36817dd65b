//! Tenants that share ten slots by weight: the slots of each when others come, wait and go.
//!
//! `cargo run -p tidegate-examples --example fair`

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};

use tidegate::concurrency::{FairConcurrency, Permit};
use tidegate::{ManualClock, Timestamp, minutes, seconds};

fn main() {
    let clock = ManualClock::new(Timestamp::from_millis(0));
    let fair = FairConcurrency::builder(10).weight("gold", 4).sleeper(clock.clone()).build(); // other tenants: 1

    let mut free = acquire_all(&fair, "free");
    show(&fair, "free is alone and takes all it can");

    let refused = fair.try_acquire("gold").unwrap_err();
    println!("gold tries: {refused}");
    show(&fair, "gold is present now, and its share is reserved");

    free.truncate(6);
    let gold = acquire_all(&fair, "gold");
    show(&fair, "free ends 4, and gold gets their slots");

    // Free waits. When its work ends, the freed slots are reserved for gold until gold has its 8.
    let mut waiting = pin!(fair.acquire("free", minutes(1)));
    let mut context = Context::from_waker(Waker::noop());
    assert!(waiting.as_mut().poll(&mut context).is_pending());
    free.truncate(2);
    assert!(waiting.as_mut().poll(&mut context).is_pending());
    show(&fair, "free ends 4 more and waits for a slot: 4 are empty and reserved for gold");

    drop(gold);
    assert!(waiting.as_mut().poll(&mut context).is_pending());
    show(&fair, "gold ends all its work, but stays present for a while");

    clock.advance(seconds(10));
    let served = waiting.as_mut().poll(&mut context);
    assert!(served.is_ready());
    show(&fair, "ten seconds later gold is absent, and the waiting request gets a slot");
}

fn acquire_all(fair: &FairConcurrency, tenant: &str) -> Vec<Permit> {
    std::iter::from_fn(|| fair.try_acquire(tenant).ok()).collect()
}

fn show(fair: &FairConcurrency, what: &str) {
    println!("{what}");
    for tenant in ["gold", "free"] {
        match fair.share(tenant) {
            None => println!("  {tenant}: not present"),
            Some(share) => {
                let (has, guarantee, waiting) = (share.in_flight as usize, share.guarantee, share.waiting);
                println!(
                    "  {tenant}: {:10} {has} in flight, {guarantee} guaranteed, {waiting} waiting",
                    "#".repeat(has)
                );
            }
        }
    }
}
