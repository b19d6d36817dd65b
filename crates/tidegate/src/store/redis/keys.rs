//! What a key is called in Redis.

use sha2::{Digest, Sha256};
use tidegate_core::{Key, Scope};

use crate::store::colocation::{Colocation, prefix};
use crate::store::secret::{Secret, hex};

/// The longest text of a key that is stored as it is: what a client sends should not decide how much is.
const LONGEST: usize = 512;

/// How names are made.
#[derive(Clone, Default)]
pub(super) struct Names {
    pub(super) colocation: Colocation,
    /// Keys are hashed with this secret, so that nobody who reads the database learns who they are.
    pub(super) secret: Option<Secret>,
    /// The names are for a cluster, where braces decide which node a key is on.
    pub(super) for_cluster: bool,
}

impl Names {
    /// The name of a key.
    pub(super) fn name(&self, scope: &Scope, key: &Key<'_>) -> String {
        let key = self.key(key);
        let tag = match self.tag(scope, &key) {
            Some(tag) => format!("{{{tag}}}"),
            // Braces in a user's name must not choose its node; an empty tag is none, and the first pair counts.
            None if self.for_cluster => "{}".to_owned(),
            None => String::new(),
        };
        format!("{tag}{}|{key}", scope.as_str())
    }

    /// The name of a key's leases, which are of another kind than the states of rates: no key's text has a `%l`.
    pub(super) fn leases(&self, scope: &Scope, key: &Key<'_>) -> String {
        format!("{}|%l", self.name(scope, key))
    }

    /// What keys that live together have in common.
    pub(super) fn place(&self, scope: &Scope, key: &Key<'_>) -> String {
        self.tag(scope, &self.key(key)).unwrap_or_else(|| self.name(scope, key))
    }

    /// The text that decides where a key lives.
    fn tag(&self, scope: &Scope, key: &str) -> Option<String> {
        let text = match self.colocation {
            Colocation::Nothing => return None,
            Colocation::Key => key,
            Colocation::Prefix => prefix(scope),
        };
        // A brace would end it early, and an empty one is none.
        let is_plain = !text.is_empty() && !text.contains(['{', '}']);
        Some(if is_plain { text.to_owned() } else { format!("{:016x}", Key::from(text).stable_hash(0)) })
    }

    fn key(&self, key: &Key<'_>) -> String {
        if let Some(secret) = &self.secret {
            return secret.hash(key);
        }
        let text = key.to_text();
        if text.len() <= LONGEST {
            return text.into_owned();
        }
        // No key's text has a `%h`.
        format!("%h{}", hex(&Sha256::digest(text.as_bytes())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_scopes_and_keys_apart() {
        let names = Names::default();
        let name = |prefix, limit, key: Key<'_>| names.name(&Scope::new(prefix, limit), &key);
        assert_eq!(name("shop", "login", Key::from("u1")), "shop|login|u1");
        let all = [
            name("a", "b|c", Key::from("d")),
            name("a|b", "c", Key::from("d")),
            name("a", "b", Key::from(("c", "d"))),
            name("a", "b", Key::from("c|d")),
            name("a", "b", Key::GLOBAL),
            name("a", "b", Key::from("")),
            names.leases(&Scope::new("a", "b"), &Key::from("c")),
            names.leases(&Scope::new("a", "b"), &Key::GLOBAL),
            name("a", "b", Key::from(("c", "%l"))),
            name("a", "b", Key::from("%l")),
        ];
        let distinct: std::collections::HashSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), all.len(), "{all:?}");
    }

    #[test]
    fn a_long_key_is_stored_as_its_hash() {
        let (names, scope) = (Names::default(), Scope::new("shop", "login"));
        let name = |key: &str| names.name(&scope, &Key::from(key));
        assert_eq!(name(&"x".repeat(LONGEST)).len(), "shop|login|".len() + LONGEST);
        let long = name(&"x".repeat(LONGEST + 1));
        assert_eq!(long.len(), "shop|login|%h".len() + 64);
        assert_ne!(long, name(&("x".repeat(LONGEST) + "y")));
        let typed = name(&long["shop|login|".len()..]);
        assert_ne!(typed, long, "a hash cannot be typed in as a key");
    }

    #[test]
    fn hashed_keys_cannot_be_read_and_differ() {
        let names = |key: &[u8]| Names { secret: Some(Secret::new(key)), ..Names::default() };
        let scope = Scope::new("shop", "login");
        let name = names(b"one").name(&scope, &Key::from("alice@example.org"));
        assert!(name.starts_with("shop|login|") && !name.contains("alice"), "{name}");
        assert_eq!(name, names(b"one").name(&scope, &Key::from("alice@example.org")));
        assert_ne!(name, names(b"two").name(&scope, &Key::from("alice@example.org")));
        assert_ne!(name, names(b"one").name(&scope, &Key::from("bob@example.org")));
        assert_ne!(names(b"one").name(&scope, &Key::from("")), names(b"one").name(&scope, &Key::GLOBAL));
    }

    #[test]
    fn what_lives_together_shares_a_tag() {
        let name = |colocation, limit, key: Key<'_>| {
            let names = Names { colocation, for_cluster: true, ..Names::default() };
            names.name(&Scope::new("shop", limit), &key)
        };
        assert_eq!(name(Colocation::Key, "login", "u1".into()), "{u1}shop|login|u1");
        assert_eq!(name(Colocation::Prefix, "login", "u1".into()), "{shop}shop|login|u1");
        assert_eq!(name(Colocation::Nothing, "login", "{x}".into()), "{}shop|login|{x}");
        for odd in [Key::from("}x"), Key::GLOBAL, Key::from("u1}x"), Key::from("{u1}")] {
            let [login, send] = ["login", "send"].map(|limit| name(Colocation::Key, limit, odd.clone()));
            let tag = |name: &str| name[1..].split('}').next().unwrap().to_owned();
            assert_eq!((tag(&login), tag(&login).len()), (tag(&send), 16), "{login} {send}");
        }
    }
}
