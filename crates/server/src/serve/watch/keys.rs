//! How keys are told to people.

use std::borrow::Cow;
use std::hash::{BuildHasher, RandomState};

use tidegate::Key;

use super::sketch::{Kind, Shown};

/// How many bytes of a key are shown.
const LONGEST: usize = 64;

/// How keys are told to people: as they are, or as a short hash. The hash has a secret that is another one in every
/// process and that nobody is told, so that guesses at a key cannot be compared with it.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    secret: RandomState,
    pub(super) hidden: bool,
    pub(super) logged: bool,
}

impl Keys {
    /// What stands for a key: different ones for different keys, as good as always.
    pub(super) fn id(&self, key: &Key<'_>) -> u64 {
        self.secret.hash_one(key.as_raw())
    }

    /// How a key is shown on the dashboard.
    pub(super) fn show(&self, key: &Key<'_>, id: u64, shown: &mut Shown) {
        if self.hidden {
            *shown = Shown { kind: Kind::Hash, text: short(id), whole: false };
            return;
        }
        let (kind, text, can_be_named) = text(key);
        let end = text.floor_char_boundary(LONGEST);
        shown.kind = kind;
        shown.whole = can_be_named && end == text.len();
        shown.text.push_str(&text[..end]);
        if !shown.whole {
            // Two long ones that begin alike are told apart.
            shown.text.push('…');
            shown.text.push_str(&short(id));
        }
    }

    /// How a key is logged.
    pub(super) fn logged(&self, key: &Key<'_>, id: u64) -> String {
        if self.logged { text(key).1.into_owned() } else { short(id) }
    }
}

fn short(id: u64) -> String {
    format!("#{:012x}", id >> 16)
}

/// What a key is, its text, and whether a question can name it by that.
fn text<'a>(key: &'a Key<'_>) -> (Kind, Cow<'a, str>, bool) {
    if let Some(client) = key.stands_in() {
        let (kind, text, _) = text(&client);
        let is_one = kind == Kind::Text;
        return (if is_one { Kind::Client } else { kind }, text.into_owned().into(), is_one);
    }
    if let Some(apart) = key.stands_apart() {
        let (kind, text, _) = text(&apart);
        return (kind, text.into_owned().into(), false);
    }
    let mut parts = key.parts();
    match (parts.next(), parts.next()) {
        (None, _) => (Kind::Global, Cow::Borrowed(""), true),
        (Some(one), None) => (Kind::Text, one, true),
        (Some(one), Some(two)) => {
            let all: Vec<_> = [one, two].into_iter().chain(parts).collect();
            (Kind::Parts, serde_json::to_string(&all).expect("texts are JSON").into(), true)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(keys: &Keys, key: &Key<'_>) -> Shown {
        let mut shown = Shown::default();
        keys.show(key, keys.id(key), &mut shown);
        shown
    }

    #[test]
    fn a_key_is_shown_as_it_was_asked_for() {
        let keys = Keys::default();
        let shown = |key: Key<'_>| {
            let shown = show(&keys, &key);
            (shown.kind, shown.text, shown.whole)
        };
        assert_eq!(shown(Key::from("a|b")), (Kind::Text, "a|b".to_owned(), true));
        assert_eq!(shown(Key::from(("a|b", "\"c"))), (Kind::Parts, r#"["a|b","\"c"]"#.to_owned(), true));
        assert_eq!(shown(Key::GLOBAL), (Kind::Global, String::new(), true));
        assert_eq!(shown(Key::from("")), (Kind::Text, String::new(), true));
        assert_eq!(shown(Key::from("192.0.2.1").standing_in()), (Kind::Client, "192.0.2.1".to_owned(), true));
        // No question can name that one.
        let (kind, text, whole) = shown(Key::from("d1ge57").set_apart());
        assert!(kind == Kind::Text && text.starts_with("d1ge57") && !whole, "{text}");
    }

    #[test]
    fn a_long_key_is_cut_between_characters_and_still_told_apart() {
        let keys = Keys::default();
        let (one, two) = ("ü".repeat(2000), "ü".repeat(1999) + "x");
        let (one, two) = (show(&keys, &Key::from(one.as_str())), show(&keys, &Key::from(two.as_str())));
        assert!(one.text.len() < 90 && !one.whole);
        assert_ne!(one.text, two.text);
    }

    #[test]
    fn a_hidden_key_leaves_nothing_but_a_hash_that_others_cannot_make() {
        let hidden = || Keys { hidden: true, ..Keys::default() };
        let (one, other) = (hidden(), hidden());
        let key = Key::from("alice@example.com");
        let shown = show(&one, &key);
        assert_eq!((shown.kind, shown.text.len(), shown.whole), (Kind::Hash, 13, false));
        assert_eq!(shown, show(&one, &key));
        assert_ne!(shown, show(&other, &key), "the secret is another one in every process");
        assert_eq!(one.logged(&key, one.id(&key)), shown.text);
    }
}
