//! What a server says about when to come back.

use std::time::{Duration, SystemTime};

use http::header::RETRY_AFTER;
use http::{HeaderMap, StatusCode};
use sfv::{BareItem, List, ListEntry, Parser};
use tidegate_core::Timestamp;

use super::Answer;

/// How long to leave a server alone, by what it has answered at `now`. None when it has said nothing of the kind.
pub(super) fn wait(answer: &impl Answer, now: Timestamp, back_off: Duration) -> Option<Duration> {
    let refused = matches!(answer.status(), StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE);
    let asked = if refused { Some(retry_after(answer.headers(), now).unwrap_or(back_off)) } else { None };
    asked.max(nothing_left(answer.headers()))
}

/// Seconds, or a date.
fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        // More than there are numbers for is for ever.
        return Some(Duration::from_secs(value.parse().unwrap_or(u64::MAX)));
    }
    let date = httpdate::parse_http_date(value).ok()?.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    // One that has passed is no wait.
    Some(date.saturating_sub(Duration::from_micros(now.as_micros())))
}

/// The longest wait of those limits of which nothing remains.
fn nothing_left(headers: &HeaderMap) -> Option<Duration> {
    let mut fields = headers.get_all("ratelimit").iter().map(|value| value.as_bytes());
    let joined =
        fields.next().map(|first| fields.fold(first.to_vec(), |all, next| [&all, &b", "[..], next].concat()))?;
    let list = Parser::new(&joined).parse::<List>().ok()?;
    let number = |item: &sfv::Item, name: &str| match item.params.get(name) {
        Some(BareItem::Integer(number)) => u64::try_from(i64::from(*number)).ok(),
        _ => None,
    };
    let items = list.iter().filter_map(|entry| if let ListEntry::Item(item) = entry { Some(item) } else { None });
    let empty = items.filter(|item| number(item, "r") == Some(0));
    empty.filter_map(|item| number(item, "t")).max().map(Duration::from_secs)
}
