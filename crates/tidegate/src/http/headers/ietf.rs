//! `RateLimit-Policy` and `RateLimit` of draft-ietf-httpapi-ratelimit-headers-10.

use std::borrow::Cow;
use std::fmt::Write;
use std::iter;
use std::sync::Arc;
use std::time::Duration;

use http::header::{HeaderMap, HeaderName, HeaderValue};
use sfv::{Integer, ItemSerializer, KeyRef, ListSerializer, StringRef, key_ref};
use smallvec::SmallVec;
use tidegate_core::{Decision, Outlook, ceil_seconds};

use super::lasting::lasting;
use crate::enforce::{Ruling, Rulings};
use crate::http::joined::joined;

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const LIMIT: HeaderName = HeaderName::from_static("ratelimit");

/// What comes before after how many seconds there is more.
const SECONDS: &str = ";t=";

const PRINTABLE: &str = "a structured field is printable";

const Q: &KeyRef = key_ref("q");
const W: &KeyRef = key_ref("w");

/// What stays the same in the fields of one enforcer's requests while its limits do.
// What the usual request looks at comes first.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Fields {
    /// In place, because there seldom are others.
    first: Limit,
    policy: HeaderValue,
    others: Vec<Limit>,
}

#[derive(Debug)]
struct Limit {
    policy: Arc<str>,
    quantity: u64,
    window: Option<Duration>,
    /// What comes before how much remains: its name, quoted and escaped, and the key.
    remaining: String,
}

/// What is said of a decision.
#[derive(Debug)]
pub(crate) struct Told {
    policy: HeaderValue,
    limit: HeaderValue,
}

impl Told {
    pub(crate) fn write(self, headers: &mut HeaderMap) {
        headers.append(POLICY, self.policy);
        headers.append(LIMIT, self.limit);
    }
}

impl Fields {
    /// Those of at least one ruling, to be kept.
    pub(super) fn kept(rulings: &Rulings) -> Self {
        Self::with(rulings, lasting)
    }

    /// Those of at least one ruling, for this once.
    pub(super) fn of(rulings: &Rulings) -> Self {
        Self::with(rulings, |policy| HeaderValue::try_from(policy).expect(PRINTABLE))
    }

    fn with(rulings: &Rulings, policy: impl FnOnce(String) -> HeaderValue) -> Self {
        let mut list = ListSerializer::new();
        for ruling in rulings.iter() {
            let name = printable(ruling.policy());
            let mut item = list.bare_item(StringRef::from_str(&name).expect("printable"));
            // Whole seconds, or nothing.
            let window = ruling.window().filter(|window| window.subsec_nanos() == 0).map(|window| window.as_secs());
            for (key, value) in [(Q, Some(ruling.decision().limit())), (W, window)] {
                if let Some(value) = value.and_then(|value| Integer::try_from(value).ok()) {
                    item = item.parameter(key, value);
                }
            }
        }
        let policy = policy(list.finish().expect("there is a limit"));
        let mut limits = rulings.iter().map(Limit::of);
        Fields { first: limits.next().expect("there is a limit"), policy, others: limits.collect() }
    }

    /// Whether these are the fields of such limits.
    pub(super) fn fit(&self, rulings: &Rulings) -> bool {
        let fits =
            |(limit, ruling): (&Limit, &Ruling)| limit.is(ruling.shared_policy(), ruling.window(), ruling.decision());
        self.limits().count() == rulings.len() && self.limits().zip(rulings.iter()).all(fits)
    }

    pub(super) fn write(&self, rulings: &Rulings, headers: &mut HeaderMap) {
        let limit = match &**rulings {
            [ruling] => self.first.value(ruling.decision()),
            _ => list(self.limits().zip(rulings.iter().map(Ruling::decision))),
        };
        Told { policy: self.policy.clone(), limit }.write(headers);
    }

    /// What they say of the decision of one limit, if they are its fields.
    #[cfg(feature = "tower")]
    #[inline]
    pub(super) fn told(&self, policy: &Arc<str>, window: Option<Duration>, decision: &Decision) -> Option<Told> {
        let fits = self.others.is_empty() && self.first.is(policy, window, decision);
        fits.then(|| Told { policy: self.policy.clone(), limit: self.first.value(decision) })
    }

    fn limits(&self) -> impl Iterator<Item = &Limit> {
        iter::once(&self.first).chain(&self.others)
    }
}

/// The value of `RateLimit` of several limits.
fn list<'a>(decisions: impl Iterator<Item = (&'a Limit, &'a Decision)>) -> HeaderValue {
    // As long as most are, so that the value is all there is on the heap.
    let mut list = SmallVec::<[u8; 256]>::new();
    for (limit, decision) in decisions {
        let separator = if list.is_empty() { "" } else { ", " };
        let mut digits = digits();
        let (remaining, seconds) = numbers(decision, &mut digits);
        let key = if seconds.is_some() { SECONDS } else { "" };
        let pieces = [separator, &limit.remaining, remaining, key, seconds.unwrap_or_default()];
        pieces.iter().for_each(|piece| list.extend_from_slice(piece.as_bytes()));
    }
    HeaderValue::from_bytes(&list).expect(PRINTABLE)
}

impl Limit {
    fn of(ruling: &Ruling) -> Self {
        let name = printable(ruling.policy());
        let name = ItemSerializer::new().bare_item(StringRef::from_str(&name).expect("printable")).finish();
        let (policy, quantity) = (Arc::clone(ruling.shared_policy()), ruling.decision().limit());
        Limit { policy, quantity, window: ruling.window(), remaining: name + ";r=" }
    }

    /// The value of `RateLimit` of this limit alone.
    #[inline]
    fn value(&self, decision: &Decision) -> HeaderValue {
        let value = match numbers(decision, &mut digits()) {
            (remaining, Some(seconds)) => joined([&self.remaining, remaining, SECONDS, seconds]),
            (remaining, None) => joined([&self.remaining, remaining]),
        };
        HeaderValue::try_from(value).expect(PRINTABLE)
    }

    #[inline]
    fn is(&self, policy: &Arc<str>, window: Option<Duration>, decision: &Decision) -> bool {
        // Nearly always the very same text, which is seen without reading it.
        (Arc::ptr_eq(&self.policy, policy) || self.policy == *policy)
            && self.quantity == decision.limit()
            && self.window == window
    }
}

/// How much remains and after how many seconds there is more: numbers, which need no more than to be written.
#[inline]
fn numbers<'a>(decision: &Decision, [digits, more]: &'a mut [itoa::Buffer; 2]) -> (&'a str, Option<&'a str>) {
    let Outlook { remaining, next_after, .. } = decision.outlook();
    (digits.format(remaining), next_after.map(|next| more.format(ceil_seconds(next))))
}

/// Where the digits of two numbers are written to.
fn digits() -> [itoa::Buffer; 2] {
    [itoa::Buffer::new(); 2]
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_not_printable_are_percent_encoded() {
        assert_eq!(printable("100% \"quoted\""), "100% \"quoted\"");
        assert_eq!(printable("a\nb%"), "a%0Ab%25");
        assert_eq!(printable("🌊"), "%F0%9F%8C%8A");
    }
}
