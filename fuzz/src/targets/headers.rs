//! The headers and the bodies that clients receive.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sfv::{BareItem, List, ListEntry, Parser};
use tidegate::enforce::{Action, Caller, Enforcer, Outcome};
use tidegate::http::{HeaderMap, HeaderStyle, LimitHeaders, RateLimit};
use tidegate::{Quota, millis};

use super::take;

/// Checks that headers are well-formed under any policy name and numbers. A parser must find the original values in
/// them. The body of a denial must be JSON with the name in it.
///
/// The input is a byte for the rate, one for the period, and the name.
pub fn headers(data: &[u8]) {
    let (rate, data) = take(data);
    let (period, data) = take(data);
    let name = String::from_utf8_lossy(data);
    let quota = Quota::fixed_window(u64::from(rate).max(1), millis(u64::from(period).max(1) * 100)).expect("a quota");
    let enforcer = enforcer().with_quota(quota).with_policy_name(&*name);
    let caller = Caller::new(NEXT.fetch_add(1, Ordering::Relaxed));

    let cost = 1 + u64::from(rate) / 2;
    let first = enforcer.try_apply(&caller, cost, Action::Limit).expect("memory is immediate");
    let denied = enforcer.try_apply(&caller, cost.max(1 + u64::from(rate) - cost), Action::Limit);
    let last = enforcer.try_apply(&caller, 300, Action::Limit).expect("memory is immediate");
    assert!(matches!(last, Outcome::Limited(_)), "{last:?}");
    let denied = denied.expect("memory is immediate");
    for outcome in [&first, &denied, &last] {
        let mut headers = HeaderMap::new();
        let styles = [HeaderStyle::Ietf, HeaderStyle::Draft03, HeaderStyle::Legacy];
        LimitHeaders::new(styles).write(outcome, &mut headers);
        assert!(headers.values().all(|value| value.to_str().is_ok()), "{headers:?}");
        for field in ["ratelimit-policy", "ratelimit"] {
            let list = Parser::new(headers[field].as_bytes()).parse::<List>().expect("a list");
            let [ListEntry::Item(item)] = &list[..] else { panic!("{list:?}") };
            let BareItem::String(text) = &item.bare_item else { panic!("{item:?}") };
            assert_eq!(decode_name(text.as_str(), &name), name);
        }
    }

    let limits = RateLimit::new(enforcer);
    if let Outcome::Limited(limit_decisions) = &denied
        && let Some(wait) = limit_decisions.retry_after()
    {
        let response = limits.response(&denied);
        let seconds = response.headers()["retry-after"].to_str().expect("digits").parse().expect("digits");
        assert!(
            Duration::from_secs(seconds) >= wait && seconds >= 1 && seconds <= wait.as_secs() + 1,
            "{seconds} for {wait:?}"
        );
        let body: serde_json::Value = serde_json::from_str(response.body()).expect("JSON");
        assert_eq!(body["retryable"], true);
        assert!(Duration::from_millis(body["retry_after_ms"].as_u64().expect("a number")) >= wait);
    }
    let response = limits.response(&last);
    let body: serde_json::Value = serde_json::from_str(response.body()).expect("JSON");
    assert_eq!(body["violated-policies"][0], *name);
    assert_eq!(body["retryable"], false, "more than the whole quota");
}

/// Returns a shared enforcer, because creating one takes most of the time here. Each run has a new caller.
fn enforcer() -> Enforcer {
    static ENFORCER: LazyLock<Enforcer> =
        LazyLock::new(|| Enforcer::from_quota(Quota::fixed_window(1, millis(1)).expect("a quota")));
    ENFORCER.clone()
}

static NEXT: AtomicU64 = AtomicU64::new(0);

/// Decodes a name as a client does: it is percent-encoded if it would not be printable otherwise.
fn decode_name(text: &str, name: &str) -> String {
    if name.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
        return text.to_owned();
    }
    let mut bytes = text.bytes();
    let mut decoded = Vec::new();
    while let Some(byte) = bytes.next() {
        let mut digit = || char::from(bytes.next().expect("two digits")).to_digit(16).expect("a digit") as u8;
        decoded.push(if byte == b'%' { digit() << 4 | digit() } else { byte });
    }
    String::from_utf8(decoded).expect("a name")
}
