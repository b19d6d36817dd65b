//! Why a command is refused.

use std::borrow::Cow;
use std::fmt;

/// How much of what a client has sent is told back to it.
const SHOWN: usize = 128;

/// Why a command is refused: a word in capitals and a text, as errors are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal(Cow<'static, str>);

impl Refusal {
    pub(crate) fn new(text: String) -> Self {
        Refusal(Cow::Owned(text))
    }
}

impl From<&'static str> for Refusal {
    fn from(text: &'static str) -> Self {
        Refusal(Cow::Borrowed(text))
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a client has sent, or the beginning of it.
pub(crate) fn quoted(bytes: &[u8]) -> String {
    format!("'{}'", String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN)]))
}
