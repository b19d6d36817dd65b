//! Hashes keys with a secret, so that the database does not reveal client names.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use tidegate_core::Key;

/// The secret that keys are hashed with.
#[derive(Clone)]
pub(super) struct Secret(Hmac<Sha256>);

impl Secret {
    pub(super) fn new(secret: &[u8]) -> Self {
        Secret(Hmac::new_from_slice(secret).expect("any length will do"))
    }

    /// Returns the hash of a key as text.
    pub(super) fn hash(&self, key: &Key<'_>) -> String {
        let mut mac = self.0.clone();
        let (shape, bytes) = key.as_raw();
        mac.update(&[shape]);
        mac.update(bytes);
        let hash = mac.finalize().into_bytes();
        // With 128 bits, a client cannot find two keys that collide.
        hex(&hash[..16])
    }
}

/// Returns bytes as text.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
