//! The database keys of rows.

use sha2::{Digest, Sha256};
use tidegate_core::{Key, Request};

use crate::store::secret::Secret;

/// The longest row key that is stored as text. Longer ones are hashed, because a database index limits the length of a key.
const MAX_TEXT_LEN: usize = 512;

/// The first byte of a hashed row key. No text begins with it.
const HASH_MARKER: u8 = 0xff;

/// An encoder of requests to row keys, which hashes the client key when it has a secret.
#[derive(Clone, Default)]
pub(crate) struct RowKeyEncoder {
    pub(crate) secret: Option<Secret>,
}

impl RowKeyEncoder {
    /// Returns the row key of a request: `prefix|limit|key` as text, or the hash of that text when it is long.
    pub(crate) fn encode(&self, request: &Request<'_>) -> Vec<u8> {
        let text = format!("{}|{}", request.scope.as_str(), self.key_text(request.key));
        if text.len() <= MAX_TEXT_LEN {
            return text.into_bytes();
        }
        let mut hash = vec![HASH_MARKER];
        hash.extend_from_slice(&Sha256::digest(text));
        hash
    }

    fn key_text(&self, key: &Key<'_>) -> String {
        self.secret.as_ref().map_or_else(|| key.to_text().into_owned(), |secret| secret.hash(key))
    }
}

#[cfg(test)]
mod tests {
    use tidegate_core::{Cost, OnStoreError, Op, Quota, Scope, seconds};

    use super::*;

    fn row_key(key: &str) -> Vec<u8> {
        let (scope, quota) = (Scope::new("shop", "login"), Quota::token_bucket(1, seconds(1)).unwrap());
        let (key, op, on_store_error) = (Key::from(key), Op::Limit(Cost::ONE), OnStoreError::Open);
        RowKeyEncoder::default().encode(&Request { scope: &scope, key: &key, quota: &quota, op, on_store_error })
    }

    #[test]
    fn short_row_key_is_readable_and_long_one_is_hashed() {
        assert_eq!(row_key("u1"), b"shop|login|u1");
        let (long, other) = (row_key(&"x".repeat(10_000)), row_key(&("x".repeat(9_999) + "y")));
        assert_eq!((long.len(), long[0]), (33, 0xff));
        assert_ne!(long, other);
        // A hash cannot be typed in as a key: no text has that byte.
        assert!(std::str::from_utf8(&long).is_err());
    }
}
