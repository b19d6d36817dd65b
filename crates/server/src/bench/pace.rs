//! When requests are due.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::stop::Stop;

/// How late a request may go out before its lateness counts: timers are no finer than that.
const TIMER: Duration = Duration::from_millis(2);

/// When the requests to one server are due, whichever of its connections sends them.
pub(super) struct Pace {
    begun: Instant,
    end: Instant,
    rate: Option<Rate>,
    /// The number of the next request.
    next: AtomicU64,
}

/// Requests a second, over `of` servers, of which this is the one with the number `server`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rate {
    pub(super) per_second: u32,
    pub(super) server: usize,
    pub(super) of: usize,
}

impl Rate {
    /// How long after the begin a request is due. Servers take turns, so that together they are asked evenly.
    fn due(&self, number: u64) -> Duration {
        let turn = u128::from(number) * self.of as u128 + self.server as u128;
        Duration::from_nanos((turn * 1_000_000_000 / u128::from(self.per_second)) as u64)
    }

    /// How many requests are due within that time.
    fn within(&self, span: Duration) -> u64 {
        // Turns from 0 on that are due before `span` is over.
        let turns = (span.as_nanos() * u128::from(self.per_second)).div_ceil(1_000_000_000);
        (turns + self.of as u128 - 1).saturating_sub(self.server as u128).div_euclid(self.of as u128) as u64
    }
}

impl Pace {
    pub(super) fn new(begun: Instant, duration: Duration, rate: Option<Rate>) -> Self {
        Pace { begun, end: begun + duration, rate, next: AtomicU64::new(0) }
    }

    /// Waits until a request is due, and says from when its latency counts; none when it is over.
    pub(super) async fn turn(&self, stop: &mut Stop) -> Option<Instant> {
        if stop.is_told() {
            return None;
        }
        let now = Instant::now();
        let Some(rate) = self.rate else { return (now < self.end).then_some(now) };
        let due = self.begun + rate.due(self.next.fetch_add(1, Ordering::Relaxed));
        if due >= self.end || now >= self.end {
            return None;
        }
        if due <= now {
            return Some(counted_from(due, now));
        }
        tokio::select! {
            () = sleep_until(due) => Some(counted_from(due, Instant::now())),
            () = stop.told() => None,
        }
    }

    /// One more request that is due already.
    pub(super) fn another(&self) -> Option<Instant> {
        let now = Instant::now();
        let Some(rate) = self.rate else { return Some(now) };
        let number = self.next.load(Ordering::Relaxed);
        let due = self.begun + rate.due(number);
        if due > now || due >= self.end {
            return None;
        }
        // Another connection may have taken it: then that has one more, and this is content with what it has.
        let taken = self.next.compare_exchange(number, number + 1, Ordering::Relaxed, Ordering::Relaxed);
        taken.ok().map(|_| counted_from(due, now))
    }

    /// How many were due until then and are not among the `sent`.
    pub(super) fn unsent(&self, until: Instant, sent: u64) -> u64 {
        let span = until.min(self.end).saturating_duration_since(self.begun);
        self.rate.map_or(0, |rate| rate.within(span).saturating_sub(sent))
    }
}

fn counted_from(due: Instant, now: Instant) -> Instant {
    now.min(due + TIMER)
}

#[cfg(test)]
mod tests {
    use super::super::stop::Stopper;
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn servers_together_are_asked_at_the_rate() {
        for (per_second, of) in [(1, 1), (7, 2), (1_000, 3), (10_000_000, 7)] {
            let rate = |server| Rate { per_second, server, of };
            let whole: u64 = (0..of).map(|server| rate(server).within(SECOND * 3_600)).sum();
            assert_eq!(whole, u64::from(per_second) * 3_600, "{per_second} over {of}");
        }
        let first = Rate { per_second: 4, server: 0, of: 2 };
        let second = Rate { server: 1, ..first };
        let millis = |rate: Rate| [0, 1, 2].map(|number| rate.due(number).as_millis());
        assert_eq!((millis(first), millis(second)), ([0, 500, 1_000], [250, 750, 1_250]));
        // What is due at the very end is not within.
        assert_eq!((first.within(SECOND), second.within(SECOND)), (2, 2));
        assert_eq!((first.within(Duration::ZERO), second.within(Duration::ZERO)), (0, 0));
        assert_eq!((first.within(SECOND / 4), second.within(SECOND / 4)), (1, 0));
    }

    /// A stall that is the server's: the requests behind it count from when they were due.
    #[tokio::test(start_paused = true)]
    async fn latency_counts_from_when_a_request_was_due() {
        let begun = Instant::now();
        let pace = Pace::new(begun, SECOND, Some(Rate { per_second: 10, server: 0, of: 1 }));
        let (_stopper, mut stop) = Stopper::new();
        assert_eq!(pace.turn(&mut stop).await, Some(begun));
        tokio::time::advance(Duration::from_millis(450)).await;
        for late in [100, 200, 300, 400] {
            let from = begun + Duration::from_millis(late) + TIMER;
            assert_eq!(pace.turn(&mut stop).await, Some(from), "the one due after {late} ms");
        }
        assert_eq!(pace.unsent(Instant::now(), 4), 1);
        // On time again: it is waited for.
        assert_eq!(pace.turn(&mut stop).await, Some(begun + SECOND / 2));
        assert_eq!(Instant::now(), begun + SECOND / 2);
    }

    #[tokio::test(start_paused = true)]
    async fn only_what_is_due_goes_together() {
        let begun = Instant::now();
        let pace = Pace::new(begun, SECOND, Some(Rate { per_second: 10, server: 0, of: 1 }));
        tokio::time::advance(Duration::from_millis(250)).await;
        let together = std::iter::from_fn(|| pace.another()).count();
        assert_eq!(together, 3);
        tokio::time::advance(SECOND).await;
        assert_eq!(std::iter::from_fn(|| pace.another()).count(), 7, "nothing is due after the end");
    }

    #[tokio::test(start_paused = true)]
    async fn it_ends_on_time_and_when_told() {
        for rate in [None, Some(Rate { per_second: 1, server: 0, of: 1 })] {
            let (stopper, mut stop) = Stopper::new();
            let pace = Pace::new(Instant::now(), SECOND * 10, rate);
            assert!(pace.turn(&mut stop).await.is_some());
            tokio::time::advance(SECOND * 10).await;
            assert_eq!(pace.turn(&mut stop).await, None, "{rate:?}");

            let pace = Pace::new(Instant::now(), SECOND * 10, rate);
            assert!(pace.turn(&mut stop).await.is_some());
            stopper.stop();
            let told = Instant::now();
            assert_eq!(pace.turn(&mut stop).await, None, "{rate:?}");
            assert_eq!(Instant::now(), told, "nobody waits any more");
        }
    }
}
