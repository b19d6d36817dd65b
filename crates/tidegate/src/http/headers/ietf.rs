//! `RateLimit-Policy` and `RateLimit` of draft-ietf-httpapi-ratelimit-headers-10.

use std::borrow::Cow;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use http::header::{HeaderMap, HeaderName, HeaderValue};
use sfv::{Integer, ItemSerializer, KeyRef, ListSerializer, StringRef, key_ref};
use tidegate_core::{Outlook, ceil_seconds};

use super::line::Line;
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
    /// What comes before how much remains: its name, quoted and escaped, and the key.
    remaining: String,
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

    /// The value of `RateLimit`. Its parameters are numbers, which need no more than to be written.
    fn limit(&self, rulings: &Rulings) -> HeaderValue {
        let mut line = Line::new();
        for (index, (limit, ruling)) in self.limits.iter().zip(rulings.iter()).enumerate() {
            if index > 0 {
                line.push(", ");
            }
            line.push(&limit.remaining);
            let Outlook { remaining, next_after, .. } = ruling.decision().outlook();
            line.push(itoa::Buffer::new().format(remaining));
            if let Some(next) = next_after {
                line.push(";t=");
                line.push(itoa::Buffer::new().format(ceil_seconds(next)));
            }
        }
        HeaderValue::from_bytes(line.as_bytes()).expect("a structured field is printable")
    }
}

impl Limit {
    fn of(ruling: &Ruling) -> Self {
        let name = printable(ruling.policy());
        let name = ItemSerializer::new().bare_item(StringRef::from_str(&name).expect("printable")).finish();
        let (policy, quantity) = (Arc::clone(ruling.shared_policy()), ruling.decision().limit());
        Limit { policy, quantity, window: ruling.window(), remaining: name + ";r=" }
    }

    fn is(&self, ruling: &Ruling) -> bool {
        // Nearly always the very same text, which is seen without reading it.
        let policy = ruling.shared_policy();
        (Arc::ptr_eq(&self.policy, policy) || self.policy == *policy)
            && self.quantity == ruling.decision().limit()
            && self.window == ruling.window()
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
