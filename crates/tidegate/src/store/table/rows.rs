//! What a key's row is found by.

use sha2::{Digest, Sha256};
use tidegate_core::{Key, Request};

use crate::store::secret::Secret;

/// The longest name that is stored as it is: a database's index takes no key of any length.
const LONGEST: usize = 512;

/// What a name that is hashed for its length begins with: no text does.
const HASHED: u8 = 0xff;

/// How rows are found.
#[derive(Clone, Default)]
pub(crate) struct Rows {
    pub(crate) secret: Option<Secret>,
}

impl Rows {
    /// The bytes that a request's row is found by: `prefix|limit|key` as text, or its hash when that is long.
    pub(crate) fn name(&self, request: &Request<'_>) -> Vec<u8> {
        let name = format!("{}|{}", request.scope.as_str(), self.key(request.key));
        if name.len() <= LONGEST {
            return name.into_bytes();
        }
        let mut hash = vec![HASHED];
        hash.extend_from_slice(&Sha256::digest(name));
        hash
    }

    fn key(&self, key: &Key<'_>) -> String {
        self.secret.as_ref().map_or_else(|| key.to_text().into_owned(), |secret| secret.hash(key))
    }
}

#[cfg(test)]
mod tests {
    use tidegate_core::{Cost, OnStoreError, Op, Quota, Scope, seconds};

    use super::*;

    fn name(key: &str) -> Vec<u8> {
        let (scope, quota) = (Scope::new("shop", "login"), Quota::token_bucket(1, seconds(1)).unwrap());
        let (key, op, on_store_error) = (Key::from(key), Op::Limit(Cost::ONE), OnStoreError::Open);
        Rows::default().name(&Request { scope: &scope, key: &key, quota: &quota, op, on_store_error })
    }

    #[test]
    fn a_short_name_can_be_read_and_a_long_one_fits_an_index() {
        assert_eq!(name("u1"), b"shop|login|u1");
        let (long, other) = (name(&"x".repeat(10_000)), name(&("x".repeat(9_999) + "y")));
        assert_eq!((long.len(), long[0]), (33, 0xff));
        assert_ne!(long, other);
        // A hash cannot be typed in as a key: no text has that byte.
        assert!(std::str::from_utf8(&long).is_err());
    }
}
