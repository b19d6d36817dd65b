//! Backoffs of hosts, from `Retry-After` and exhausted `RateLimit` headers of their responses.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use http::header::RETRY_AFTER;
use http::{HeaderMap, StatusCode};
use sfv::{BareItem, List, ListEntry, Parser};
use tidegate_core::Timestamp;

use super::OutgoingResponse;

/// Above this number, the host with the shortest backoff is forgotten.
const MAX_HOSTS: usize = 1_024;

/// The hosts to back off from.
#[derive(Debug, Default)]
pub(super) struct HostBackoffs(Mutex<HashMap<String, Backoff>>);

/// The end of a backoff, and how long it was requested for.
#[derive(Debug)]
struct Backoff {
    until: Timestamp,
    wait: Duration,
}

impl Backoff {
    fn new(now: Timestamp, wait: Duration) -> Self {
        Backoff { until: now.saturating_add(wait), wait }
    }

    /// Returns the rest of the backoff. It never exceeds the requested duration: after the clock goes back, the backoff
    /// restarts instead of lasting until the clock has caught up.
    fn remaining(&mut self, now: Timestamp) -> Duration {
        self.until = now.saturating_add(self.wait).min(self.until);
        self.until.since(now)
    }
}

impl HostBackoffs {
    /// Returns the rest of a host's backoff.
    pub(super) fn remaining(&self, host: &str, now: Timestamp) -> Option<Duration> {
        let remaining = self.0.lock().unwrap_or_else(PoisonError::into_inner).get_mut(host)?.remaining(now);
        Some(remaining).filter(|remaining| !remaining.is_zero())
    }

    /// Backs off from a host, unless a longer backoff is pending.
    pub(super) fn extend(&self, host: &str, now: Timestamp, wait: Duration) {
        if wait.is_zero() {
            return;
        }
        let mut hosts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(backoff) = hosts.get_mut(host) {
            if backoff.remaining(now) < wait {
                *backoff = Backoff::new(now, wait);
            }
            return;
        }
        if hosts.len() >= MAX_HOSTS {
            hosts.retain(|_, backoff| !backoff.remaining(now).is_zero());
        }
        if hosts.len() >= MAX_HOSTS
            && let Some(soonest) = hosts.iter().min_by_key(|(_, backoff)| backoff.until).map(|(host, _)| host.clone())
        {
            hosts.remove(&soonest);
        }
        hosts.insert(host.to_owned(), Backoff::new(now, wait));
    }
}

/// Returns the backoff that a response at `now` requests.
pub(super) fn requested_backoff(
    response: &impl OutgoingResponse,
    now: Timestamp,
    default_backoff: Duration,
) -> Option<Duration> {
    let refused = matches!(response.status(), StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE);
    let requested = if refused { Some(retry_after(response.headers(), now).unwrap_or(default_backoff)) } else { None };
    requested.max(reset_of_exhausted(response.headers()))
}

/// Reads seconds or a date.
fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        // More than fits a number is forever.
        return Some(Duration::from_secs(value.parse().unwrap_or(u64::MAX)));
    }
    let date = httpdate::parse_http_date(value).ok()?.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    // A date in the past is no wait.
    Some(date.saturating_sub(Duration::from_micros(now.as_micros())))
}

/// Returns the longest reset time of exhausted limits.
fn reset_of_exhausted(headers: &HeaderMap) -> Option<Duration> {
    let mut fields = headers.get_all("ratelimit").iter().map(|value| value.as_bytes());
    let joined =
        fields.next().map(|first| fields.fold(first.to_vec(), |all, next| [&all, &b", "[..], next].concat()))?;
    let list = Parser::new(&joined).parse::<List>().ok()?;
    let number = |item: &sfv::Item, name: &str| match item.params.get(name) {
        Some(BareItem::Integer(number)) => u64::try_from(i64::from(*number)).ok(),
        _ => None,
    };
    let items = list.iter().filter_map(|entry| if let ListEntry::Item(item) = entry { Some(item) } else { None });
    let exhausted = items.filter(|item| number(item, "r") == Some(0));
    exhausted.filter_map(|item| number(item, "t")).max().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_with_the_shortest_backoff_is_forgotten_when_there_are_too_many() {
        let (backoffs, now) = (HostBackoffs::default(), Timestamp::from_millis(1_000));
        for host in 0..MAX_HOSTS as u64 {
            backoffs.extend(&host.to_string(), now, Duration::from_secs(10 + host));
        }
        backoffs.extend("one too many", now, Duration::from_secs(5));
        assert_eq!(backoffs.remaining("0", now), None);
        assert_eq!(backoffs.remaining("1", now), Some(Duration::from_secs(11)));
        assert_eq!(backoffs.remaining("one too many", now), Some(Duration::from_secs(5)));
    }

    #[test]
    fn shorter_backoff_does_not_shorten_a_longer_one() {
        let (backoffs, now) = (HostBackoffs::default(), Timestamp::from_millis(1_000));
        backoffs.extend("a", now, Duration::from_secs(10));
        backoffs.extend("a", now, Duration::from_secs(2));
        assert_eq!(backoffs.remaining("a", now), Some(Duration::from_secs(10)));
        assert_eq!(backoffs.remaining("a", now.saturating_add(Duration::from_secs(10))), None);
    }

    #[test]
    fn clock_that_goes_back_does_not_lengthen_a_backoff() {
        let (backoffs, now) = (HostBackoffs::default(), Timestamp::from_millis(10_000_000));
        backoffs.extend("a", now, Duration::from_secs(30));
        let back = Timestamp::from_millis(6_400_000);
        assert_eq!(backoffs.remaining("a", back), Some(Duration::from_secs(30)));
        assert_eq!(backoffs.remaining("a", back.saturating_add(Duration::from_secs(31))), None);
        backoffs.extend("a", back, Duration::from_secs(40));
        assert_eq!(backoffs.remaining("a", back.saturating_add(Duration::from_secs(39))), Some(Duration::from_secs(1)));
    }
}
