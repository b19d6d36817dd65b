//! `RateLimit-Policy` and `RateLimit` of draft-ietf-httpapi-ratelimit-headers-10.

use std::borrow::Cow;
use std::fmt::Write;
use std::iter;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use sfv::{Integer, ItemSerializer, KeyRef, ListSerializer, StringRef, key_ref};
use tidegate_core::ceil_seconds;

use crate::enforce::{Ruling, Rulings};

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const LIMIT: HeaderName = HeaderName::from_static("ratelimit");

const Q: &KeyRef = key_ref("q");
const W: &KeyRef = key_ref("w");

/// What stays the same in the fields of one enforcer's requests while its limits do.
#[derive(Debug)]
pub(super) struct Fields {
    limits: Vec<Limit>,
    policy: HeaderValue,
}

#[derive(Debug)]
struct Limit {
    policy: Arc<str>,
    quantity: u64,
    window: Option<Duration>,
    /// Its name as the field has it, quoted and escaped.
    name: String,
}

impl Fields {
    pub(super) fn of(rulings: &Rulings) -> Self {
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
        let policy = list.finish().expect("there is a limit");
        let policy = HeaderValue::try_from(policy).expect("a structured field is printable");
        Fields { limits: rulings.iter().map(Limit::of).collect(), policy }
    }

    /// Whether these are the fields of such limits.
    pub(super) fn fit(&self, rulings: &Rulings) -> bool {
        self.limits.len() == rulings.len()
            && self.limits.iter().zip(rulings.iter()).all(|(limit, ruling)| limit.is(ruling))
    }

    pub(super) fn write(&self, rulings: &Rulings, headers: &mut HeaderMap) {
        headers.append(POLICY, self.policy.clone());
        headers.append(LIMIT, self.limit(rulings));
    }

    /// The value of `RateLimit`. Its parameters are numbers, which need no more than to be written, and it is as long as
    /// its buffer, which becomes the value as it is: a request waits for this.
    fn limit(&self, rulings: &Rulings) -> HeaderValue {
        let limits = || self.limits.iter().zip(rulings.iter()).enumerate();
        let room = limits().map(|(index, (limit, ruling))| limit.room(index, ruling)).sum();
        let mut text = String::with_capacity(room);
        limits().for_each(|(index, (limit, ruling))| limit.push(index, ruling, &mut text));
        debug_assert_eq!(text.len(), room);
        HeaderValue::from_maybe_shared(Bytes::from(text)).expect("a structured field is printable")
    }
}

impl Limit {
    fn of(ruling: &Ruling) -> Self {
        let name = printable(ruling.policy());
        let name = ItemSerializer::new().bare_item(StringRef::from_str(&name).expect("printable")).finish();
        let (policy, quantity) = (Arc::clone(ruling.shared_policy()), ruling.decision().limit());
        Limit { policy, quantity, window: ruling.window(), name }
    }

    fn is(&self, ruling: &Ruling) -> bool {
        Arc::ptr_eq(&self.policy, ruling.shared_policy())
            && self.quantity == ruling.decision().limit()
            && self.window == ruling.window()
    }

    /// Its part of `RateLimit`, the one at that place.
    fn push(&self, index: usize, ruling: &Ruling, text: &mut String) {
        if index > 0 {
            text.push_str(NEXT);
        }
        text.push_str(&self.name);
        for (key, value) in parameters(ruling) {
            text.push_str(key);
            text.push_str(itoa::Buffer::new().format(value));
        }
    }

    /// How much [`push`](Self::push) writes.
    fn room(&self, index: usize, ruling: &Ruling) -> usize {
        let separator = if index > 0 { NEXT.len() } else { 0 };
        let digits = |value: u64| value.checked_ilog10().unwrap_or(0) as usize + 1;
        let parameters = parameters(ruling).map(|(key, value)| key.len() + digits(value));
        separator + self.name.len() + parameters.sum::<usize>()
    }
}

const NEXT: &str = ", ";

fn parameters(ruling: &Ruling) -> impl Iterator<Item = (&'static str, u64)> {
    let decision = ruling.decision();
    let next = decision.next_after().map(|next| (";t=", ceil_seconds(next)));
    iter::once((";r=", decision.remaining())).chain(next)
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
