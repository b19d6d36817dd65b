//! A process that holds a lease and is killed: its slot is free when the lease expires, and not before.

use std::future::Future;
use std::io::{BufRead, BufReader, Write};
use std::process::Command;
use std::time::Duration;

use tidegate::{Clock, Lease, Limiter, LimiterBuilder, Quota, Reason, SystemClock, Timestamp, millis, seconds};

/// Long enough that neither a slow disk nor a busy machine makes the holder late, or the test that looks afterwards.
const TTL: Duration = seconds(6);

/// The interval between renewals, and the number of renewals before the kill. The lease is older than its time to live
/// then.
const RENEW_INTERVAL: Duration = seconds(1);
const RENEWALS: usize = 7;

/// The largest difference between the clocks of the store and the test, which run on one machine.
const CLOCK_TOLERANCE: Duration = millis(50);

/// Limits with one slot, without a store.
pub(crate) fn limits() -> LimiterBuilder {
    Limiter::builder().limit("work", Quota::concurrency(1, TTL).unwrap())
}

/// Holds the slot until the process is killed. Prints each renewed lease, and when the call for it began.
pub(crate) async fn hold_forever(limiter: &Limiter) {
    let mut asked = SystemClock.now();
    let lease = limiter.admit("work", "everybody").await.unwrap().lease().expect("the place is free");
    loop {
        // In one piece, and past the test harness.
        let line = format!("\nheld {lease} {}\n", asked.as_micros());
        std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
        tokio::time::sleep(RENEW_INTERVAL).await;
        asked = SystemClock.now();
        assert!(limiter.renew("work", "everybody", lease).await.unwrap().allowed());
    }
}

/// Runs a command that [holds the slot](hold_forever), kills it with SIGKILL, and checks on the store's own clock that the
/// lease expires.
pub(crate) fn assert_lease_expires(mut child: Command, limiter: &Limiter, run: impl Fn(CheckFuture<'_>)) {
    let mut child = child.spawn().unwrap();
    let mut held: Option<(Lease, Timestamp)> = None;
    let mut seen = 0;
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        let Some((lease, asked)) = line.strip_prefix("held ").and_then(|held| held.split_once(' ')) else { continue };
        held = Some((lease.parse().unwrap(), Timestamp::from_micros(asked.parse().unwrap())));
        seen += 1;
        if seen == 1 + RENEWALS {
            child.kill().unwrap();
        }
    }
    assert!(!child.wait().unwrap().success(), "it was killed");
    let (lease, asked) = held.expect("it held the place");
    run(Box::pin(assert_free_after_ttl(limiter, lease, asked)));
}

/// The future of a check, which a test runs to its end.
pub(crate) type CheckFuture<'a> = std::pin::Pin<Box<dyn Future<Output = ()> + 'a>>;

/// Checks that the slot is taken until the lease that was renewed at `asked` expires, and free then.
async fn assert_free_after_ttl(limiter: &Limiter, lease: Lease, asked: Timestamp) {
    let mut last = TTL;
    let free = loop {
        let admitted = limiter.admit("work", "everybody").await.unwrap();
        let decision = admitted.decision();
        if let Some(lease) = admitted.lease() {
            break lease;
        }
        let left = decision.retry_after().expect("it expires");
        assert_eq!(decision.reason(), Some(Reason::Concurrency));
        assert!(left <= last, "it is not renewed: {left:?} left after {last:?}");
        last = left;
        tokio::time::sleep(left.min(millis(20))).await;
    };
    let waited = SystemClock.now().since(asked);
    assert!(waited + CLOCK_TOLERANCE >= TTL, "the place came back {waited:?} after it was last renewed");
    assert!(last < TTL, "the place was free at once");
    // The old lease of the killed process releases no slot.
    assert!(!limiter.release("work", "everybody", lease).await.unwrap().allowed());
    assert!(limiter.admit("work", "everybody").await.unwrap().lease().is_none());
    assert!(limiter.release("work", "everybody", free).await.unwrap().allowed());
}
