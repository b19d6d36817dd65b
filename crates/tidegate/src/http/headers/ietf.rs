//! `RateLimit-Policy` and `RateLimit` of draft-ietf-httpapi-ratelimit-headers-10.

use std::borrow::Cow;
use std::fmt::Write;

use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use sfv::{Integer, KeyRef, ListSerializer, StringRef, key_ref};
use tidegate_core::{Algorithm, Quota, QuotaParts};

use super::seconds::rounded_up;
use crate::enforce::{Ruling, Rulings};

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const LIMIT: HeaderName = HeaderName::from_static("ratelimit");

const Q: &KeyRef = key_ref("q");
const W: &KeyRef = key_ref("w");
const R: &KeyRef = key_ref("r");
const T: &KeyRef = key_ref("t");

pub(super) fn write(rulings: &Rulings, headers: &mut HeaderMap) {
    // One text for both, which the values share: every request pays for it.
    let mut text = String::with_capacity(96);
    write_list(rulings, &mut text, |ruling| {
        [(Q, Some(ruling.decision().limit())), (W, whole_seconds_to_fill(ruling.quota()))]
    });
    let end = text.len();
    write_list(rulings, &mut text, |ruling| {
        let decision = ruling.decision();
        [(R, Some(decision.remaining())), (T, decision.next_after().map(rounded_up))]
    });
    let mut text = Bytes::from(text);
    for (name, value) in [(POLICY, text.split_to(end)), (LIMIT, text)] {
        headers.insert(name, HeaderValue::from_maybe_shared(value).expect("a structured field is printable"));
    }
}

fn write_list(
    rulings: &Rulings,
    text: &mut String,
    parameters: impl Fn(&Ruling) -> [(&'static KeyRef, Option<u64>); 2],
) {
    let mut list = ListSerializer::with_buffer(text);
    for ruling in rulings.iter() {
        let policy = printable(ruling.policy());
        let policy = StringRef::from_str(&policy).expect("printable");
        let mut item = list.bare_item(policy);
        for (key, value) in parameters(ruling) {
            if let Some(value) = value.and_then(|value| Integer::try_from(value).ok()) {
                item = item.parameter(key, value);
            }
        }
    }
}

/// A name as a structured field can carry it: printable ASCII as it is, anything else percent-encoded.
fn printable(name: &str) -> Cow<'_, str> {
    let is_printable = |byte: u8| (b' '..=b'~').contains(&byte);
    if name.bytes().all(is_printable) {
        return Cow::Borrowed(name);
    }
    let mut encoded = String::with_capacity(name.len() * 3);
    for byte in name.bytes() {
        // A percent sign as well, or it could not be told from the others.
        match byte {
            byte if is_printable(byte) && byte != b'%' => encoded.push(char::from(byte)),
            byte => write!(encoded, "%{byte:02X}").expect("a string takes everything"),
        }
    }
    Cow::Owned(encoded)
}

/// In how many seconds an empty quota is full. None when they are not whole.
fn whole_seconds_to_fill(quota: &Quota) -> Option<u64> {
    let QuotaParts { algorithm, rate, period, capacity, .. } = quota.parts();
    let (rate, capacity, period) = (u128::from(rate), u128::from(capacity), period.as_micros());
    let micros = match algorithm {
        Algorithm::TokenBucket if (capacity * period).is_multiple_of(rate) => capacity * period / rate,
        Algorithm::TokenBucket => return None,
        Algorithm::FixedWindow => capacity.div_ceil(rate) * period,
        _ => period,
    };
    micros.is_multiple_of(1_000_000).then(|| u64::try_from(micros / 1_000_000).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn windows_are_the_time_to_fill_in_whole_seconds() {
        let micros = Duration::from_micros;
        let seconds = |quota: Result<Quota, _>| whole_seconds_to_fill(&quota.unwrap());
        assert_eq!(seconds(Quota::token_bucket(100, micros(60_000_000))), Some(60));
        assert_eq!(seconds(Quota::token_bucket(10, micros(1_000_000)).and_then(|quota| quota.capacity(20))), Some(2));
        assert_eq!(seconds(Quota::token_bucket(10, micros(1_000_000)).and_then(|quota| quota.capacity(25))), None);
        assert_eq!(seconds(Quota::token_bucket(3, micros(1_000_000)).and_then(|quota| quota.capacity(1))), None);
        assert_eq!(seconds(Quota::fixed_window(5, micros(60_000_000)).and_then(|quota| quota.capacity(11))), Some(180));
        assert_eq!(seconds(Quota::sliding_window(5, micros(1_500_000))), None);
        assert_eq!(seconds(Quota::sliding_log(5, micros(86_400_000_000))), Some(86_400));
    }

    #[test]
    fn names_that_are_not_printable_are_percent_encoded() {
        assert_eq!(printable("100% \"quoted\""), "100% \"quoted\"");
        assert_eq!(printable("a\nb%"), "a%0Ab%25");
        assert_eq!(printable("🌊"), "%F0%9F%8C%8A");
    }
}
