//! Which hosts are left alone, and until when.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tidegate_core::Timestamp;

/// How many hosts are remembered, at most: of more, those that may be asked again the soonest are forgotten.
const HOSTS: usize = 1_024;

/// Which hosts are left alone, and until when.
#[derive(Debug, Default)]
pub(super) struct HeldOff(Mutex<HashMap<String, Until>>);

/// Until when, and for how long that was said.
#[derive(Debug)]
struct Until {
    until: Timestamp,
    wait: Duration,
}

impl Until {
    fn new(now: Timestamp, wait: Duration) -> Self {
        Until { until: now.saturating_add(wait), wait }
    }

    /// How long that is still: as was said at most, so that a clock that went back makes it begin anew, and not last until it
    /// has caught up.
    fn left(&mut self, now: Timestamp) -> Duration {
        self.until = now.saturating_add(self.wait).min(self.until);
        self.until.since(now)
    }
}

impl HeldOff {
    /// How long a host is still left alone.
    pub(super) fn wait(&self, host: &str, now: Timestamp) -> Option<Duration> {
        let left = self.0.lock().unwrap_or_else(PoisonError::into_inner).get_mut(host)?.left(now);
        Some(left).filter(|left| !left.is_zero())
    }

    /// Leaves a host alone for so long, if it is not for longer already.
    pub(super) fn hold_off(&self, host: &str, now: Timestamp, wait: Duration) {
        if wait.is_zero() {
            return;
        }
        let mut hosts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = hosts.get_mut(host) {
            if kept.left(now) < wait {
                *kept = Until::new(now, wait);
            }
            return;
        }
        if hosts.len() >= HOSTS {
            hosts.retain(|_, kept| !kept.left(now).is_zero());
        }
        if hosts.len() >= HOSTS
            && let Some(soonest) = hosts.iter().min_by_key(|(_, kept)| kept.until).map(|(host, _)| host.clone())
        {
            hosts.remove(&soonest);
        }
        hosts.insert(host.to_owned(), Until::new(now, wait));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_that_may_be_asked_the_soonest_is_forgotten_for_one_too_many() {
        let (held, now) = (HeldOff::default(), Timestamp::from_millis(1_000));
        for host in 0..HOSTS as u64 {
            held.hold_off(&host.to_string(), now, Duration::from_secs(10 + host));
        }
        held.hold_off("one too many", now, Duration::from_secs(5));
        assert_eq!(held.wait("0", now), None);
        assert_eq!(held.wait("1", now), Some(Duration::from_secs(11)));
        assert_eq!(held.wait("one too many", now), Some(Duration::from_secs(5)));
    }

    #[test]
    fn a_shorter_wait_does_not_shorten_a_longer_one() {
        let (held, now) = (HeldOff::default(), Timestamp::from_millis(1_000));
        held.hold_off("a", now, Duration::from_secs(10));
        held.hold_off("a", now, Duration::from_secs(2));
        assert_eq!(held.wait("a", now), Some(Duration::from_secs(10)));
        assert_eq!(held.wait("a", now.saturating_add(Duration::from_secs(10))), None);
    }

    #[test]
    fn a_clock_that_is_set_back_leaves_nobody_alone_for_longer() {
        let (held, now) = (HeldOff::default(), Timestamp::from_millis(10_000_000));
        held.hold_off("a", now, Duration::from_secs(30));
        let back = Timestamp::from_millis(6_400_000);
        assert_eq!(held.wait("a", back), Some(Duration::from_secs(30)));
        assert_eq!(held.wait("a", back.saturating_add(Duration::from_secs(31))), None);
        held.hold_off("a", back, Duration::from_secs(40));
        assert_eq!(held.wait("a", back.saturating_add(Duration::from_secs(39))), Some(Duration::from_secs(1)));
    }
}
