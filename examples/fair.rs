//! Tenants that share ten slots by weight: what each has, when others come, wait and go.
//!
//! `cargo run -p tidegate-examples --example fair`

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};

use tidegate::concurrency::{FairConcurrency, Permit};
use tidegate::{ManualClock, Timestamp, minutes, seconds};

fn main() {
    let clock = ManualClock::new(Timestamp::from_millis(0));
    let fair = FairConcurrency::builder(10).weight("gold", 4).sleeper(clock.clone()).build(); // everybody else: 1

    let mut free = acquire_all(&fair, "free");
    show(&fair, "free is alone and takes all it can");

    let refused = fair.try_acquire("gold").unwrap_err();
    println!("gold asks: {refused}");
    show(&fair, "but now it is present, and its part is set apart");

    free.truncate(6);
    let gold = acquire_all(&fair, "gold");
    show(&fair, "free ends 4: gold gets them, and free no more than it has");

    // Free waits; when its work ends, what comes back is gold's until gold has its 8.
    let mut waiting = pin!(fair.acquire("free", minutes(1)));
    let mut context = Context::from_waker(Waker::noop());
    assert!(waiting.as_mut().poll(&mut context).is_pending());
    free.truncate(2);
    assert!(waiting.as_mut().poll(&mut context).is_pending());
    show(&fair, "free ends 4 more and waits for another: 4 slots are free, and all of them are gold's");

    drop(gold);
    assert!(waiting.as_mut().poll(&mut context).is_pending());
    show(&fair, "gold ends all it has, but has only just been here");

    clock.advance(seconds(10));
    let served = waiting.as_mut().poll(&mut context);
    assert!(served.is_ready());
    show(&fair, "ten seconds later gold is gone, and whoever waited is served");
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
