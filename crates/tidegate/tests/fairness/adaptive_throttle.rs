//! A simulated caller of an overloaded service with a fixed capacity per second.

use tidegate::concurrency::{AdaptiveThrottle, AdaptiveThrottleBuilder};
use tidegate::{ManualClock, millis, minutes};

use crate::crowd::clock;

/// A service, and a caller that sends it 1,000 requests a second.
struct Simulation {
    clock: ManualClock,
    throttle: AdaptiveThrottle,
}

/// The requests of one second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Second {
    sent: u32,
    accepted: u32,
}

impl Simulation {
    fn new(settings: impl FnOnce(AdaptiveThrottleBuilder) -> AdaptiveThrottleBuilder) -> Self {
        let clock = clock();
        let throttle = settings(AdaptiveThrottle::builder().seed(7).clock(clock.clone())).build();
        Simulation { clock, throttle }
    }

    /// Runs one second, in which the service accepts at most `capacity`.
    fn second(&self, capacity: u32) -> Second {
        let mut second = Second { sent: 0, accepted: 0 };
        for _ in 0..1_000 {
            self.clock.advance(millis(1));
            let Ok(attempt) = self.throttle.try_pass() else { continue };
            second.sent += 1;
            if second.accepted < capacity {
                second.accepted += 1;
                attempt.accepted();
            } else {
                attempt.rejected();
            }
        }
        second
    }

    fn seconds(&self, seconds: usize, capacity: u32) -> Vec<Second> {
        (0..seconds).map(|_| self.second(capacity)).collect()
    }

    /// Returns the seconds until nothing is held back for ten seconds.
    fn recovery(&self) -> usize {
        let (mut seconds, mut good) = (0, 0);
        while good < 10 {
            good = if self.second(u32::MAX).sent == 1_000 { good + 1 } else { 0 };
            seconds += 1;
            assert!(seconds < 10_000, "it never recovers");
        }
        seconds - good
    }
}

fn mean_sent(seconds: &[Second]) -> u32 {
    seconds.iter().map(|second| second.sent).sum::<u32>() / seconds.len() as u32
}

#[test]
fn healthy_service_gets_every_request() {
    let simulation = Simulation::new(|builder| builder);
    assert!(simulation.seconds(300, 1_000).iter().all(|second| second.sent == 1_000));
}

#[test]
fn service_that_accepts_half_gets_every_request_at_k_two() {
    let simulation = Simulation::new(|builder| builder);
    simulation.seconds(120, 500);
    assert!(mean_sent(&simulation.seconds(120, 500)) > 980);
}

#[test]
fn overloaded_service_gets_about_k_times_what_it_accepts() {
    for (requests, accepts, expected) in [(2, 1, 200), (3, 2, 150), (11, 10, 110)] {
        let simulation = Simulation::new(|builder| builder.k(requests, accepts));
        simulation.seconds(360, 100);
        let sent = mean_sent(&simulation.seconds(120, 100));
        assert!(sent.abs_diff(expected) * 20 <= expected, "{sent} a second, and not about {expected}");
    }
}

#[test]
fn throttle_recovers_from_an_overload_within_two_windows() {
    let simulation = Simulation::new(|builder| builder);
    simulation.seconds(360, 100);
    let seconds = simulation.recovery();
    assert!((60..=240).contains(&seconds), "{seconds} s");
}

#[test]
fn throttle_recovers_from_any_outage_in_bounded_time() {
    for outage in [10, 120, 1_200] {
        let simulation = Simulation::new(|builder| builder);
        simulation.seconds(outage, 0);
        let seconds = simulation.recovery();
        assert!(seconds <= 12 * 120, "{seconds} s after {outage} s");
    }
}

#[test]
fn healthy_window_delays_throttling_until_half_is_rejected() {
    let simulation = Simulation::new(|builder| builder);
    simulation.seconds(120, 1_000);
    assert!(simulation.seconds(59, 0).iter().all(|second| second.sent == 1_000));
    assert!(mean_sent(&simulation.seconds(10, 0)[5..]) < 950);
}

#[test]
fn service_that_is_down_still_gets_some_requests() {
    let simulation = Simulation::new(|builder| builder);
    simulation.seconds(120, 0);
    let sent: u32 = simulation.seconds(1_200, 0).iter().map(|second| second.sent).sum();
    assert!((2..=30).contains(&sent), "{sent} in ten windows, about one in each");
}

#[test]
fn requests_older_than_the_window_do_not_count() {
    let simulation = Simulation::new(|builder| builder.window(minutes(1)));
    simulation.seconds(60, 0);
    simulation.clock.advance(minutes(1));
    // As in the beginning, the first request is always sent.
    assert!(simulation.throttle.try_pass().is_ok());
    assert_eq!(simulation.recovery(), 0);
}

#[test]
fn dropped_attempt_does_not_count() {
    let simulation = Simulation::new(|builder| builder);
    for _ in 0..10_000 {
        drop(simulation.throttle.try_pass().unwrap());
    }
    // A rejected request counts, and makes the odds of the next one even.
    simulation.throttle.try_pass().unwrap().rejected();
    let passed = (0..1_000).filter(|_| simulation.throttle.try_pass().is_ok()).count();
    assert!(passed < 50, "{passed}");
}

#[test]
fn same_seed_gives_the_same_run() {
    let run = |seed| Simulation::new(|builder| builder.seed(seed)).seconds(30, 100);
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn clones_share_one_throttle() {
    let simulation = Simulation::new(|builder| builder);
    let clone = simulation.throttle.clone();
    simulation.seconds(60, 0);
    assert!((0..100).filter(|_| clone.try_pass().is_ok()).count() < 5);
}
