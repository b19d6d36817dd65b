//! The schedule of requests (open or closed loop), and the signal that ends a test early.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// The delay of a request from which it counts, because timers are no finer.
const TIMER_RESOLUTION: Duration = Duration::from_millis(2);

/// The due times of the requests to one server, shared by its connections.
pub(crate) struct Schedule {
    started: Instant,
    end: Instant,
    rate: Option<RateShare>,
    /// The number of the next request, from 0 on.
    next_request: AtomicU64,
}

/// One server's share of a rate: the server `server_index` of `server_count`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RateShare {
    pub(crate) per_second: u32,
    pub(crate) server_index: usize,
    pub(crate) server_count: usize,
}

impl RateShare {
    /// Returns the time from the start until a request is due. Servers take turns, so that together they get an even
    /// load.
    fn due(&self, number: u64) -> Duration {
        let turn = u128::from(number) * self.server_count as u128 + self.server_index as u128;
        Duration::from_nanos((turn * 1_000_000_000 / u128::from(self.per_second)) as u64)
    }

    /// Returns the number of requests that are due within `span`.
    fn due_within(&self, span: Duration) -> u64 {
        // The turns, counted from 0, that are due before `span` ends.
        let turns = (span.as_nanos() * u128::from(self.per_second)).div_ceil(1_000_000_000);
        (turns + self.server_count as u128 - 1)
            .saturating_sub(self.server_index as u128)
            .div_euclid(self.server_count as u128) as u64
    }
}

impl Schedule {
    pub(crate) fn new(started: Instant, duration: Duration, rate: Option<RateShare>) -> Self {
        Schedule { started, end: started + duration, rate, next_request: AtomicU64::new(0) }
    }

    /// Waits until a request is due. Returns the time from which its latency counts, or `None` at the end of the test.
    pub(crate) async fn next_due(&self, stop: &mut StopSignal) -> Option<Instant> {
        if stop.is_stopped() {
            return None;
        }
        let now = Instant::now();
        let Some(rate) = self.rate else { return (now < self.end).then_some(now) };
        let due = self.started + rate.due(self.next_request.fetch_add(1, Ordering::Relaxed));
        if due >= self.end || now >= self.end {
            return None;
        }
        if due <= now {
            return Some(latency_start(due, now));
        }
        tokio::select! {
            () = sleep_until(due) => Some(latency_start(due, Instant::now())),
            () = stop.stopped() => None,
        }
    }

    /// Takes one more request if it is due already.
    pub(crate) fn try_next_due(&self) -> Option<Instant> {
        let now = Instant::now();
        let Some(rate) = self.rate else { return Some(now) };
        let number = self.next_request.load(Ordering::Relaxed);
        let due = self.started + rate.due(number);
        if due > now || due >= self.end {
            return None;
        }
        // Another connection may take it first. This one then sends its earlier requests alone.
        let taken = self.next_request.compare_exchange(number, number + 1, Ordering::Relaxed, Ordering::Relaxed);
        taken.ok().map(|_| latency_start(due, now))
    }

    /// Returns how many requests were due by `until` and not `sent`.
    pub(crate) fn unsent(&self, until: Instant, sent: u64) -> u64 {
        let span = until.min(self.end).saturating_duration_since(self.started);
        self.rate.map_or(0, |rate| rate.due_within(span).saturating_sub(sent))
    }
}

/// Returns the time from which the latency of a request counts.
fn latency_start(due: Instant, now: Instant) -> Instant {
    now.min(due + TIMER_RESOLUTION)
}

/// The sender of the signal that ends a load test early.
#[derive(Clone)]
pub(crate) struct StopSender {
    sender: Arc<watch::Sender<bool>>,
    abort_reason: Arc<Mutex<Option<String>>>,
}

/// The receiver of the signal that ends a load test.
#[derive(Clone)]
pub(crate) struct StopSignal(watch::Receiver<bool>);

impl StopSender {
    pub(crate) fn new() -> (Self, StopSignal) {
        let (sender, receiver) = watch::channel(false);
        (StopSender { sender: Arc::new(sender), abort_reason: Arc::default() }, StopSignal(receiver))
    }

    pub(crate) fn stop(&self) {
        self.sender.send_replace(true);
    }

    /// Ends the test because it cannot measure anything. The first reason is kept.
    pub(crate) fn abort(&self, reason: String) {
        self.abort_reason.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(reason);
        self.stop();
    }

    /// Returns the reason if the test was aborted.
    pub(crate) fn abort_reason(&self) -> Option<String> {
        self.abort_reason.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl StopSignal {
    /// Returns whether the test ends. It is cheap enough for every request.
    pub(crate) fn is_stopped(&self) -> bool {
        // The value changes only once. A sender that is gone is an end, too.
        self.0.has_changed().unwrap_or(true)
    }

    /// Waits until the test ends.
    pub(crate) async fn stopped(&mut self) {
        // On a clone, so that the change stays unseen here and `is_stopped` keeps reporting it.
        let _ = self.0.clone().wait_for(|stopped| *stopped).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn servers_together_receive_the_configured_rate() {
        for (per_second, server_count) in [(1, 1), (7, 2), (1_000, 3), (10_000_000, 7)] {
            let rate = |server_index| RateShare { per_second, server_index, server_count };
            let whole: u64 = (0..server_count).map(|index| rate(index).due_within(SECOND * 3_600)).sum();
            assert_eq!(whole, u64::from(per_second) * 3_600, "{per_second} over {server_count}");
        }
        let first = RateShare { per_second: 4, server_index: 0, server_count: 2 };
        let second = RateShare { server_index: 1, ..first };
        let millis = |rate: RateShare| [0, 1, 2].map(|number| rate.due(number).as_millis());
        assert_eq!((millis(first), millis(second)), ([0, 500, 1_000], [250, 750, 1_250]));
        // A request due exactly at the end is excluded.
        assert_eq!((first.due_within(SECOND), second.due_within(SECOND)), (2, 2));
        assert_eq!((first.due_within(Duration::ZERO), second.due_within(Duration::ZERO)), (0, 0));
        assert_eq!((first.due_within(SECOND / 4), second.due_within(SECOND / 4)), (1, 0));
    }

    /// A stall of the server also counts for the requests behind it.
    #[tokio::test(start_paused = true)]
    async fn latency_counts_from_the_due_time() {
        let started = Instant::now();
        let schedule =
            Schedule::new(started, SECOND, Some(RateShare { per_second: 10, server_index: 0, server_count: 1 }));
        let (_stopper, mut stop) = StopSender::new();
        assert_eq!(schedule.next_due(&mut stop).await, Some(started));
        tokio::time::advance(Duration::from_millis(450)).await;
        for late in [100, 200, 300, 400] {
            let from = started + Duration::from_millis(late) + TIMER_RESOLUTION;
            assert_eq!(schedule.next_due(&mut stop).await, Some(from), "the one due after {late} ms");
        }
        assert_eq!(schedule.unsent(Instant::now(), 4), 1);
        // On time again, so the schedule waits.
        assert_eq!(schedule.next_due(&mut stop).await, Some(started + SECOND / 2));
        assert_eq!(Instant::now(), started + SECOND / 2);
    }

    #[tokio::test(start_paused = true)]
    async fn only_due_requests_are_pipelined() {
        let started = Instant::now();
        let schedule =
            Schedule::new(started, SECOND, Some(RateShare { per_second: 10, server_index: 0, server_count: 1 }));
        tokio::time::advance(Duration::from_millis(250)).await;
        let together = std::iter::from_fn(|| schedule.try_next_due()).count();
        assert_eq!(together, 3);
        tokio::time::advance(SECOND).await;
        assert_eq!(std::iter::from_fn(|| schedule.try_next_due()).count(), 7, "nothing is due after the end");
    }

    #[tokio::test(start_paused = true)]
    async fn schedule_ends_on_time_and_on_stop() {
        for rate in [None, Some(RateShare { per_second: 1, server_index: 0, server_count: 1 })] {
            let (stopper, mut stop) = StopSender::new();
            let schedule = Schedule::new(Instant::now(), SECOND * 10, rate);
            assert!(schedule.next_due(&mut stop).await.is_some());
            tokio::time::advance(SECOND * 10).await;
            assert_eq!(schedule.next_due(&mut stop).await, None, "{rate:?}");

            let schedule = Schedule::new(Instant::now(), SECOND * 10, rate);
            assert!(schedule.next_due(&mut stop).await.is_some());
            stopper.stop();
            let stopped_at = Instant::now();
            assert_eq!(schedule.next_due(&mut stop).await, None, "{rate:?}");
            assert_eq!(Instant::now(), stopped_at, "the wait ends at once");
        }
    }
}
