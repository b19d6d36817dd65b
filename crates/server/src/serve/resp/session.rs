//! What is known of one client.

use super::commands::LastQuota;
use super::parse::Bounds;
use crate::serve::auth::Token;

/// How often a client may show a wrong token before it has to connect again.
const TRIES: u32 = 5;

// Whoever has the token can show it.
const _: () = assert!(Token::LONGEST <= Bounds::STRANGER.word);

/// What is known of one client.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: u64,
    /// What it calls itself.
    pub(crate) name: Vec<u8>,
    /// Whether it has shown the token, or need not.
    pub(crate) known: bool,
    /// Whether the connection ends behind the reply.
    pub(crate) closing: bool,
    pub(crate) quotas: LastQuota,
    failures: u32,
}

impl Session {
    pub(crate) fn new(id: u64, known: bool) -> Self {
        Session { id, name: Vec::new(), known, closing: false, quotas: LastQuota::default(), failures: 0 }
    }

    /// How large its commands may be.
    pub(crate) fn bounds(&self) -> Bounds {
        if self.known { Bounds::ORDINARY } else { Bounds::STRANGER }
    }

    /// It has shown a wrong token.
    pub(crate) fn failed(&mut self) {
        self.failures += 1;
        self.closing |= self.failures >= TRIES;
    }
}
