//! A holder that is killed: its place comes back when its lease expires, and not before.

use std::future::Future;
use std::io::{BufRead, BufReader, Write};
use std::process::Command;
use std::time::Duration;

use tidegate::{Clock, Lease, Limiter, LimiterBuilder, Quota, Reason, SystemClock, Timestamp, millis, seconds};

/// Long enough that neither a slow disk nor a busy machine makes the holder late, or the test that looks afterwards.
const TTL: Duration = seconds(6);

/// How often the holder renews, and after how many times it is killed: its lease is older than its time to live then.
const EVERY: Duration = seconds(1);
const RENEWALS: usize = 7;

/// How far the store's clock and the test's, which are the same machine's, may be apart.
const APART: Duration = millis(50);

/// One place, without a store yet.
pub(crate) fn limits() -> LimiterBuilder {
    Limiter::builder().limit("work", Quota::concurrency(1, TTL).unwrap())
}

/// Holds the place until it is killed, and says each time what was renewed and when it began to ask for that.
pub(crate) async fn hold_for_ever(limiter: &Limiter) {
    let mut asked = SystemClock.now();
    let lease = limiter.admit("work", "everybody").await.unwrap().lease().expect("the place is free");
    loop {
        // In one piece, and past the test harness.
        let line = format!("\nheld {lease} {}\n", asked.as_micros());
        std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
        tokio::time::sleep(EVERY).await;
        asked = SystemClock.now();
        assert!(limiter.renew("work", "everybody", lease).await.unwrap().allowed());
    }
}

/// Runs a command that [holds the place](hold_for_ever), kills it with SIGKILL, and sees on the store's own clock when the
/// place comes back.
pub(crate) fn comes_back_when_it_expires(mut child: Command, limiter: &Limiter, run: impl Fn(Waited<'_>)) {
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
    run(Box::pin(waits_for(limiter, lease, asked)));
}

/// What a test runs to its end.
pub(crate) type Waited<'a> = std::pin::Pin<Box<dyn Future<Output = ()> + 'a>>;

/// The place is taken until the lease expires that was asked for at `asked`, and free then.
async fn waits_for(limiter: &Limiter, lease: Lease, asked: Timestamp) {
    let mut last = TTL;
    let free = loop {
        let admitted = limiter.admit("work", "everybody").await.unwrap();
        let decision = admitted.decision();
        if let Some(lease) = admitted.lease() {
            break lease;
        }
        let left = decision.retry_after().expect("it expires");
        assert_eq!(decision.reason(), Some(Reason::Concurrency));
        assert!(left <= last, "nobody renews it: {left:?} left after {last:?}");
        last = left;
        tokio::time::sleep(left.min(millis(20))).await;
    };
    let waited = SystemClock.now().since(asked);
    assert!(waited + APART >= TTL, "the place came back {waited:?} after it was last renewed");
    assert!(last < TTL, "the place was free at once");
    // Whatever is left of the one that was killed gives nobody's place back.
    assert!(!limiter.release("work", "everybody", lease).await.unwrap().allowed());
    assert!(limiter.admit("work", "everybody").await.unwrap().lease().is_none());
    assert!(limiter.release("work", "everybody", free).await.unwrap().allowed());
}
