//! The headers that tell clients about their limits.

use std::borrow::Cow;
use std::fmt::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use http::header::{HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use tidegate_core::{Decision, Reason, ceil_seconds};

use crate::clock::{Clock, SystemClock};
#[cfg(feature = "config")]
use crate::config::HttpConfig;
use crate::enforce::{LimitDecision, LimitDecisions, Outcome};
use crate::http_settings::{HeaderStyle, LegacyReset};

const IETF_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const IETF_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const DRAFT03: [HeaderName; 3] = [
    HeaderName::from_static("ratelimit-limit"),
    HeaderName::from_static("ratelimit-remaining"),
    HeaderName::from_static("ratelimit-reset"),
];
const LEGACY: [HeaderName; 3] = [
    HeaderName::from_static("x-ratelimit-limit"),
    HeaderName::from_static("x-ratelimit-remaining"),
    HeaderName::from_static("x-ratelimit-reset"),
];

// The parameters of draft-ietf-httpapi-ratelimit-headers-10.
const QUOTA: &str = ";q=";
const WINDOW: &str = ";w=";
const REMAINING: &str = ";r=";
const TIME: &str = ";t=";

/// The largest integer that a structured field can carry.
const MAX_INTEGER: u64 = 999_999_999_999_999;

/// The families of headers that describe limits to clients. Defaults to [`HeaderStyle::Ietf`].
///
/// A denial that can be retried always has a `Retry-After`, written by
/// [`RateLimit::response`](super::RateLimit::response).
#[derive(Clone)]
pub struct LimitHeaders {
    styles: Vec<HeaderStyle>,
    legacy_reset: LegacyReset,
    clock: Arc<dyn Clock>,
}

impl Default for LimitHeaders {
    fn default() -> Self {
        LimitHeaders::new([HeaderStyle::Ietf])
    }
}

impl LimitHeaders {
    /// Creates headers of these families; with none, only `Retry-After`.
    pub fn new(styles: impl IntoIterator<Item = HeaderStyle>) -> Self {
        let styles = styles.into_iter().collect();
        LimitHeaders { styles, legacy_reset: LegacyReset::default(), clock: Arc::new(SystemClock) }
    }

    /// Sets the meaning of `X-RateLimit-Reset`. Defaults to seconds from now.
    #[must_use]
    pub fn legacy_reset(mut self, reset: LegacyReset) -> Self {
        self.legacy_reset = reset;
        self
    }

    /// Sets the clock of [`LegacyReset::Epoch`]. Defaults to the system's.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Writes the headers of an outcome. Headers of an inner layer stay. If headers are lists, both limits are listed.
    /// Otherwise the inner headers stay if they are of a denial with a retry time, or if they have less left.
    pub fn write(&self, outcome: &Outcome, headers: &mut HeaderMap) {
        let (Outcome::Allowed(limit_decisions) | Outcome::Limited(limit_decisions)) = outcome else { return };
        if limit_decisions.iter().any(|limit| has_no_quota(limit.decision())) {
            self.write_all(&limit_decisions.filter(|limit| !has_no_quota(limit.decision())), headers);
        } else {
            self.write_all(limit_decisions, headers);
        }
    }

    fn write_all(&self, limit_decisions: &LimitDecisions, headers: &mut HeaderMap) {
        self.styles.iter().for_each(|style| self.write_style(*style, limit_decisions, headers));
    }

    fn write_style(&self, style: HeaderStyle, limit_decisions: &LimitDecisions, headers: &mut HeaderMap) {
        let Some(binding) = limit_decisions.binding() else { return };
        match style {
            HeaderStyle::Ietf => {
                headers.append(IETF_POLICY, ietf_policy(limit_decisions));
                headers.append(IETF_LIMIT, ietf_limit(limit_decisions));
            }
            HeaderStyle::Draft03 => write_triple(DRAFT03, binding, ceil_seconds, headers),
            HeaderStyle::Legacy => write_triple(LEGACY, binding, |reset| self.legacy_reset_of(reset), headers),
        }
    }

    fn legacy_reset_of(&self, reset_after: Duration) -> u64 {
        match self.legacy_reset {
            LegacyReset::Delta => ceil_seconds(reset_after),
            LegacyReset::Epoch => {
                let reset = self.clock.now().saturating_add(reset_after);
                reset.as_micros().div_ceil(1_000_000)
            }
        }
    }
}

/// Returns whether a decision has no quota to report, so that it is not listed. A deny list has no quota, also in
/// shadow mode. For a broken store the quota is unknown.
fn has_no_quota(decision: &Decision) -> bool {
    match decision.reason() {
        Some(Reason::Deny) => true,
        Some(Reason::Store) => decision.allowed(),
        _ => false,
    }
}

/// Writes `Retry-After`, for a denial that can be retried.
pub(super) fn write_retry_after(wait: Duration, headers: &mut HeaderMap) {
    // 0 would mean an immediate retry.
    headers.insert(RETRY_AFTER, ceil_seconds(wait).max(1).into());
}

fn write_triple(
    names: [HeaderName; 3],
    limit: &LimitDecision,
    reset: impl Fn(Duration) -> u64,
    headers: &mut HeaderMap,
) {
    let (remaining, reset_after) = (limit.decision().remaining(), limit.decision().reset_after());
    let present = headers.get(&names[1]).and_then(|remaining| remaining.to_str().ok()?.parse().ok());
    // The layer that denies reports its limit. Otherwise it is the layer with less left.
    if present.is_some_and(|present: u64| present <= remaining || headers.contains_key(RETRY_AFTER)) {
        return;
    }
    for (name, value) in names.into_iter().zip([limit.decision().limit(), remaining, reset(reset_after)]) {
        headers.insert(name, value.into());
    }
}

impl fmt::Debug for LimitHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LimitHeaders { styles, legacy_reset, .. } = self;
        f.debug_struct("LimitHeaders")
            .field("styles", styles)
            .field("legacy_reset", legacy_reset)
            .finish_non_exhaustive()
    }
}

#[cfg(feature = "config")]
impl From<&HttpConfig> for LimitHeaders {
    fn from(http: &HttpConfig) -> Self {
        LimitHeaders::new(http.headers.iter().copied()).legacy_reset(http.legacy_reset)
    }
}

/// Returns the value of `RateLimit-Policy` of draft-ietf-httpapi-ratelimit-headers-10.
fn ietf_policy(limit_decisions: &LimitDecisions) -> HeaderValue {
    ietf_list(limit_decisions, |limit| {
        // Whole seconds, or no window.
        let window = limit.window().filter(|window| window.subsec_nanos() == 0).map(|window| window.as_secs());
        [(QUOTA, Some(limit.decision().limit())), (WINDOW, window)]
    })
}

/// Returns the value of `RateLimit` of draft-ietf-httpapi-ratelimit-headers-10.
fn ietf_limit(limit_decisions: &LimitDecisions) -> HeaderValue {
    ietf_list(limit_decisions, |limit| {
        let decision = limit.decision();
        [(REMAINING, Some(decision.remaining())), (TIME, decision.next_after().map(ceil_seconds))]
    })
}

/// A list of the limits' names, each with two parameters. Written by hand: a serializer takes three times as long, which is a
/// twentieth of a small request.
fn ietf_list(
    limit_decisions: &LimitDecisions,
    parameters: impl Fn(&LimitDecision) -> [(&'static str, Option<u64>); 2],
) -> HeaderValue {
    // Room for two limits, so that the usual list does not grow.
    let mut text = String::with_capacity(64);
    for limit in limit_decisions.iter() {
        if !text.is_empty() {
            text.push_str(", ");
        }
        push_quoted(&printable(limit.policy()), &mut text);
        for (name, value) in parameters(limit) {
            if let Some(value) = value.filter(|value| *value <= MAX_INTEGER) {
                text.push_str(name);
                text.push_str(itoa::Buffer::new().format(value));
            }
        }
    }
    HeaderValue::from_str(&text).expect("a structured field is printable")
}

/// Writes printable ASCII as a string of a structured field.
fn push_quoted(printable: &str, text: &mut String) {
    text.push('"');
    for part in printable.split_inclusive(['"', '\\']) {
        match part.as_bytes().split_last() {
            Some((b'"' | b'\\', _)) => {
                let (before, special) = part.split_at(part.len() - 1);
                text.push_str(before);
                text.push('\\');
                text.push_str(special);
            }
            _ => text.push_str(part),
        }
    }
    text.push('"');
}

/// Encodes a name for a structured field: printable ASCII stays, other bytes are percent-encoded.
fn printable(name: &str) -> Cow<'_, str> {
    let is_printable = |byte: u8| (b' '..=b'~').contains(&byte);
    if name.bytes().all(is_printable) {
        return Cow::Borrowed(name);
    }
    let mut encoded = String::with_capacity(name.len() * 3);
    for byte in name.bytes() {
        // The percent sign is encoded, too, because it marks an encoded byte.
        match byte {
            byte if is_printable(byte) && byte != b'%' => encoded.push(char::from(byte)),
            byte => write!(encoded, "%{byte:02X}").expect("a string takes everything"),
        }
    }
    Cow::Owned(encoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_and_backslashes_are_escaped() {
        let quoted = |name| {
            let mut text = String::new();
            push_quoted(name, &mut text);
            text
        };
        assert_eq!(["", "api", r#"a"b\c""#].map(quoted), [r#""""#, r#""api""#, r#""a\"b\\c\"""#]);
    }

    #[test]
    fn names_that_are_not_printable_are_percent_encoded() {
        assert_eq!(printable("100% \"quoted\""), "100% \"quoted\"");
        assert_eq!(printable("a\nb%"), "a%0Ab%25");
        assert_eq!(printable("🌊"), "%F0%9F%8C%8A");
    }
}
