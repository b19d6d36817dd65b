//! Names of keys in Redis.

use sha2::{Digest, Sha256};
use tidegate_core::{Key, Scope};

use crate::store::colocation::{Colocation, prefix};
use crate::store::secret::{Secret, hex};

/// The longest key text, in bytes, that is stored as it is: a client must not decide how much is stored.
const MAX_PLAIN_LEN: usize = 512;

/// The rules by which keys are named.
#[derive(Clone, Default)]
pub(super) struct KeyNames {
    pub(super) colocation: Colocation,
    /// The secret that keys are hashed with, so that they cannot be read in the database.
    pub(super) secret: Option<Secret>,
    /// Whether the names are for a cluster, where braces decide which node a key is on.
    pub(super) is_cluster: bool,
}

impl KeyNames {
    /// The name of a key's state.
    pub(super) fn state_name(&self, scope: &Scope, key: &Key<'_>) -> String {
        let key = self.encode_key(key);
        let name = format!("{}|{key}", scope.as_str());
        match self.hash_tag(scope, &key) {
            Some(tag) => format!("{{{tag}}}{name}"),
            // The whole name is the tag: braces in a user's name must not choose its node, and the leases of a key are in the
            // slot of its state.
            None if self.is_cluster && is_tag(&name) => format!("{{{name}}}"),
            None if self.is_cluster => format!("{{{}}}{name}", hashed_tag(&name)),
            None => name,
        }
    }

    /// The name of a key's leases, which are of another kind than the states of rates: no key's text has a `%l`.
    pub(super) fn leases_name(&self, scope: &Scope, key: &Key<'_>) -> String {
        format!("{}|%l", self.state_name(scope, key))
    }

    /// The text that puts a key in its slot: keys with equal texts are in one slot.
    pub(super) fn slot_text(&self, scope: &Scope, key: &Key<'_>) -> String {
        self.hash_tag(scope, &self.encode_key(key)).unwrap_or_else(|| self.state_name(scope, key))
    }

    /// The hash tag that colocates a key with others, if any does.
    fn hash_tag(&self, scope: &Scope, key: &str) -> Option<String> {
        let text = match self.colocation {
            Colocation::None => return None,
            Colocation::Key => key,
            Colocation::Prefix => prefix(scope),
        };
        Some(if is_tag(text) { text.to_owned() } else { hashed_tag(text) })
    }

    /// The key's part of its name: its text, or a hash of it.
    fn encode_key(&self, key: &Key<'_>) -> String {
        if let Some(secret) = &self.secret {
            return secret.hash(key);
        }
        let text = key.to_text();
        if text.len() <= MAX_PLAIN_LEN {
            return text.into_owned();
        }
        // No key's text has a `%h`.
        format!("%h{}", hex(&Sha256::digest(text.as_bytes())))
    }
}

/// Whether a text can be a hash tag: a brace would end it early, and an empty one is none.
fn is_tag(text: &str) -> bool {
    !text.is_empty() && !text.contains(['{', '}'])
}

/// The hash tag for a text that cannot be one.
fn hashed_tag(text: &str) -> String {
    format!("{:016x}", Key::from(text).stable_hash(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::redis::slot::Slot;

    #[test]
    fn scopes_and_keys_have_distinct_names() {
        let names = KeyNames::default();
        let name = |prefix, limit, key: Key<'_>| names.state_name(&Scope::new(prefix, limit), &key);
        assert_eq!(name("shop", "login", Key::from("u1")), "shop|login|u1");
        let all = [
            name("a", "b|c", Key::from("d")),
            name("a|b", "c", Key::from("d")),
            name("a", "b", Key::from(("c", "d"))),
            name("a", "b", Key::from("c|d")),
            name("a", "b", Key::GLOBAL),
            name("a", "b", Key::from("")),
            names.leases_name(&Scope::new("a", "b"), &Key::from("c")),
            names.leases_name(&Scope::new("a", "b"), &Key::GLOBAL),
            name("a", "b", Key::from(("c", "%l"))),
            name("a", "b", Key::from("%l")),
        ];
        let distinct: std::collections::HashSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), all.len(), "{all:?}");
    }

    #[test]
    fn long_key_is_stored_as_hash() {
        let (names, scope) = (KeyNames::default(), Scope::new("shop", "login"));
        let name = |key: &str| names.state_name(&scope, &Key::from(key));
        assert_eq!(name(&"x".repeat(MAX_PLAIN_LEN)).len(), "shop|login|".len() + MAX_PLAIN_LEN);
        let long = name(&"x".repeat(MAX_PLAIN_LEN + 1));
        assert_eq!(long.len(), "shop|login|%h".len() + 64);
        assert_ne!(long, name(&("x".repeat(MAX_PLAIN_LEN) + "y")));
        let typed = name(&long["shop|login|".len()..]);
        assert_ne!(typed, long, "a hash cannot be typed in as a key");
    }

    #[test]
    fn hashed_keys_are_unreadable_and_distinct() {
        let names = |key: &[u8]| KeyNames { secret: Some(Secret::new(key)), ..KeyNames::default() };
        let scope = Scope::new("shop", "login");
        let name = names(b"one").state_name(&scope, &Key::from("alice@example.org"));
        assert!(name.starts_with("shop|login|") && !name.contains("alice"), "{name}");
        assert_eq!(name, names(b"one").state_name(&scope, &Key::from("alice@example.org")));
        assert_ne!(name, names(b"two").state_name(&scope, &Key::from("alice@example.org")));
        assert_ne!(name, names(b"one").state_name(&scope, &Key::from("bob@example.org")));
        assert_ne!(names(b"one").state_name(&scope, &Key::from("")), names(b"one").state_name(&scope, &Key::GLOBAL));
    }

    #[test]
    fn colocated_keys_share_a_hash_tag() {
        let name = |colocation, limit, key: Key<'_>| {
            let names = KeyNames { colocation, is_cluster: true, ..KeyNames::default() };
            names.state_name(&Scope::new("shop", limit), &key)
        };
        assert_eq!(name(Colocation::Key, "login", "u1".into()), "{u1}shop|login|u1");
        assert_eq!(name(Colocation::Prefix, "login", "u1".into()), "{shop}shop|login|u1");
        assert_eq!(name(Colocation::None, "login", "u1".into()), "{shop|login|u1}");
        for odd in [Key::from("}x"), Key::GLOBAL, Key::from("u1}x"), Key::from("{u1}")] {
            let [login, send] = ["login", "send"].map(|limit| name(Colocation::Key, limit, odd.clone()));
            let tag = |name: &str| name[1..].split('}').next().unwrap().to_owned();
            assert_eq!((tag(&login), tag(&login).len()), (tag(&send), 16), "{login} {send}");
        }
    }

    #[test]
    fn leases_are_in_the_slot_of_the_state() {
        for colocation in [Colocation::None, Colocation::Key, Colocation::Prefix] {
            let names = KeyNames { colocation, is_cluster: true, ..KeyNames::default() };
            for key in [Key::from("u1"), Key::GLOBAL, Key::from("{u1}"), Key::from("{"), Key::from("}{"), Key::from("")]
            {
                let scope = Scope::new("shop", "login");
                let [state, leases] = [names.state_name(&scope, &key), names.leases_name(&scope, &key)];
                assert_eq!(Slot::of_name(&state), Slot::of_name(&leases), "{state}");
            }
        }
    }

    #[test]
    fn braces_do_not_choose_the_node_of_a_key() {
        let names = KeyNames { is_cluster: true, ..KeyNames::default() };
        let name = |key: &str| names.state_name(&Scope::new("shop", "login"), &Key::from(key));
        let slots: std::collections::HashSet<_> =
            (0..100).map(|number| Slot::of_name(&name(&format!("{{x}}{number}")))).collect();
        assert!(slots.len() > 90, "{} slots", slots.len());
        assert_ne!(name("{x}"), name("x"));
    }
}
