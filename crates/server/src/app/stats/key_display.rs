//! The display form of keys: in clear, or as a short hash.

use std::borrow::Cow;
use std::hash::{BuildHasher, RandomState};

use tidegate::Key;

use super::top_keys::{KeyKind, ShownKey};

/// How many bytes of a key are shown.
const MAX_SHOWN: usize = 64;

/// How keys are shown to people: in clear, or as a short hash. The hash has a secret of the process, so that guesses at a
/// key cannot be compared with it.
#[derive(Debug, Default)]
pub(crate) struct KeyDisplay {
    secret: RandomState,
    /// Whether the dashboard shows hashes.
    pub(super) hides_keys: bool,
    /// Whether the log has keys in clear.
    pub(super) logs_keys: bool,
}

impl KeyDisplay {
    /// Returns the hash of a key; those of different keys practically never collide.
    pub(super) fn id(&self, key: &Key<'_>) -> u64 {
        self.secret.hash_one(key.as_raw())
    }

    /// Writes a key as the dashboard shows it.
    pub(super) fn show(&self, key: &Key<'_>, id: u64, shown: &mut ShownKey) {
        if self.hides_keys {
            *shown = ShownKey { kind: KeyKind::Hash, text: short_hash(id), whole: false };
            return;
        }
        let (kind, text, is_nameable) = text(key);
        let end = text.floor_char_boundary(MAX_SHOWN);
        shown.kind = kind;
        shown.whole = is_nameable && end == text.len();
        shown.text.push_str(&text[..end]);
        if !shown.whole {
            // Distinguishes two long keys with the same beginning.
            shown.text.push('…');
            shown.text.push_str(&short_hash(id));
        }
    }

    /// Returns a key as the log shows it.
    pub(super) fn log_text(&self, key: &Key<'_>, id: u64) -> String {
        if self.logs_keys { text(key).1.into_owned() } else { short_hash(id) }
    }
}

fn short_hash(id: u64) -> String {
    format!("#{:012x}", id >> 16)
}

/// Returns the kind of a key, its text, and whether a request can name it by that text.
fn text<'a>(key: &'a Key<'_>) -> (KeyKind, Cow<'a, str>, bool) {
    if let Some(client) = key.strip_fallback() {
        let (kind, text, _) = text(&client);
        let is_one = kind == KeyKind::Text;
        return (if is_one { KeyKind::Client } else { kind }, text.into_owned().into(), is_one);
    }
    if let Some(apart) = key.strip_reserved() {
        let (kind, text, _) = text(&apart);
        return (kind, text.into_owned().into(), false);
    }
    let mut parts = key.parts();
    match (parts.next(), parts.next()) {
        (None, _) => (KeyKind::Global, Cow::Borrowed(""), true),
        (Some(one), None) => (KeyKind::Text, one, true),
        (Some(one), Some(two)) => {
            let all: Vec<_> = [one, two].into_iter().chain(parts).collect();
            (KeyKind::Parts, serde_json::to_string(&all).expect("texts are JSON").into(), true)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(keys: &KeyDisplay, key: &Key<'_>) -> ShownKey {
        let mut shown = ShownKey::default();
        keys.show(key, keys.id(key), &mut shown);
        shown
    }

    #[test]
    fn a_key_is_shown_as_it_was_requested() {
        let keys = KeyDisplay::default();
        let shown = |key: Key<'_>| {
            let shown = show(&keys, &key);
            (shown.kind, shown.text, shown.whole)
        };
        assert_eq!(shown(Key::from("a|b")), (KeyKind::Text, "a|b".to_owned(), true));
        assert_eq!(shown(Key::from(("a|b", "\"c"))), (KeyKind::Parts, r#"["a|b","\"c"]"#.to_owned(), true));
        assert_eq!(shown(Key::GLOBAL), (KeyKind::Global, String::new(), true));
        assert_eq!(shown(Key::from("")), (KeyKind::Text, String::new(), true));
        assert_eq!(shown(Key::from("192.0.2.1").to_fallback()), (KeyKind::Client, "192.0.2.1".to_owned(), true));
        // No request can name a key of the reserved namespace.
        let (kind, text, whole) = shown(Key::from("d1ge57").to_reserved());
        assert!(kind == KeyKind::Text && text.starts_with("d1ge57") && !whole, "{text}");
    }

    #[test]
    fn long_keys_are_cut_between_characters_and_stay_distinct() {
        let keys = KeyDisplay::default();
        let (one, two) = ("ü".repeat(2000), "ü".repeat(1999) + "x");
        let (one, two) = (show(&keys, &Key::from(one.as_str())), show(&keys, &Key::from(two.as_str())));
        assert!(one.text.len() < 90 && !one.whole);
        assert_ne!(one.text, two.text);
    }

    #[test]
    fn a_hidden_key_is_a_hash_with_a_secret() {
        let hidden = || KeyDisplay { hides_keys: true, ..KeyDisplay::default() };
        let (one, other) = (hidden(), hidden());
        let key = Key::from("alice@example.com");
        let shown = show(&one, &key);
        assert_eq!((shown.kind, shown.text.len(), shown.whole), (KeyKind::Hash, 13, false));
        assert_eq!(shown, show(&one, &key));
        assert_ne!(shown, show(&other, &key), "every process has its own secret");
        assert_eq!(one.log_text(&key, one.id(&key)), shown.text);
    }
}
