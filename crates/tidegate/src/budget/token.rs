//! Tokens: the text with which another process settles a hold.
//!
//! A token needs no secret that processes share. The lease of a hold is a hash of every part of its token that is worth
//! forging. So a forged token names a lease that no store has given.

use std::borrow::Cow;
use std::fmt::Write;
use std::time::Duration;

use sha2::{Digest, Sha256};
use tidegate_core::{Key, Lease, Timestamp};

/// The maximum length of a token in bytes. A key of 16,000 bytes fits.
const MAX_TOKEN_BYTES: usize = 32 << 10;

/// The version of the text and of the lease's hash.
const VERSION: &str = "1";

/// A text is not the token of a hold of this budget.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HoldTokenError {
    /// The token is too long. A hold has no token when its key has more than about 16,000 bytes.
    #[error("the token of a hold has {0} bytes, expected at most {MAX_TOKEN_BYTES}")]
    TooLong(usize),
    /// The text is no token.
    #[error("this is not the token of a hold: expected the text that `Hold::to_token` returned")]
    Malformed,
    /// Another version of the library wrote the token.
    #[error("the token of a hold has an unknown version: expected {VERSION}")]
    UnknownVersion,
    /// The hold belongs to another limit.
    #[error("the token is of a hold of another limit: expected one of the limit {0:?}")]
    OtherLimit(String),
}

/// The content of a token.
///
/// The limit, the key, the nonce and the estimate are bound to the lease. The rest only lowers a refund, which is never more
/// than the estimate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HoldToken<'a> {
    pub(super) limit: Cow<'a, str>,
    pub(super) key: Key<'a>,
    /// Makes the lease unique, and impossible to guess.
    pub(super) nonce: u64,
    pub(super) estimate: u64,
    /// The units that were missing when the estimate had been taken.
    pub(super) missing: u64,
    /// The time from then until the next units were replenished.
    pub(super) next_after: Duration,
    /// The age of the hold when the token was created.
    pub(super) age: Duration,
    pub(super) created: Timestamp,
}

impl HoldToken<'_> {
    pub(super) fn to_text(&self) -> Result<String, HoldTokenError> {
        let micros = |span: Duration| u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        let (next_after, age) = (micros(self.next_after), micros(self.age));
        let mut text = VERSION.to_owned();
        for number in [self.nonce, self.estimate, self.missing, next_after, age, self.created.as_micros()] {
            write!(text, ".{number:x}").expect("a string takes any text");
        }
        // Hexadecimal digits pass through headers, URLs and databases unchanged.
        for name in [&*self.limit, &*self.key.to_text()] {
            text.push('.');
            name.bytes().for_each(|byte| write!(text, "{byte:02x}").expect("a string takes any text"));
        }
        check_len(&text)?;
        Ok(text)
    }

    pub(super) fn parse(text: &str) -> Result<HoldToken<'static>, HoldTokenError> {
        check_len(text)?;
        let (version, fields) = text.split_once('.').ok_or(HoldTokenError::Malformed)?;
        // `from_str_radix` would take signs and capitals, too.
        let is_hex = |text: &str| text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f' | b'.'));
        match version {
            VERSION if is_hex(fields) => parse_fields(fields).ok_or(HoldTokenError::Malformed),
            version if version != VERSION && !version.is_empty() && is_hex(version) => {
                Err(HoldTokenError::UnknownVersion)
            }
            _ => Err(HoldTokenError::Malformed),
        }
    }

    pub(super) fn lease(&self) -> Lease {
        bound_lease(&self.limit, &self.key, self.nonce, self.estimate)
    }
}

/// Returns the lease that is bound to a hold.
///
/// To raise an estimate, a forger needs another input with the hash of a lease that is held, which takes 2^64 attempts.
pub(super) fn bound_lease(limit: &str, key: &Key<'_>, nonce: u64, estimate: u64) -> Lease {
    let hash = Sha256::new()
        .chain_update(b"tidegate hold ")
        .chain_update(VERSION)
        .chain_update(nonce.to_be_bytes())
        .chain_update(estimate.to_be_bytes())
        .chain_update((limit.len() as u64).to_be_bytes())
        .chain_update(limit)
        .chain_update(&*key.to_text())
        .finalize();
    let (first, _) = hash.split_first_chunk().expect("a hash has 32 bytes");
    Lease::from_bits(u64::from_be_bytes(*first))
}

fn check_len(text: &str) -> Result<(), HoldTokenError> {
    if text.len() > MAX_TOKEN_BYTES { Err(HoldTokenError::TooLong(text.len())) } else { Ok(()) }
}

fn parse_fields(text: &str) -> Option<HoldToken<'static>> {
    let mut fields = text.split('.');
    let mut number = || u64::from_str_radix(fields.next()?, 16).ok();
    let (nonce, estimate, missing) = (number()?, number()?, number()?);
    let (next_after, age) = (Duration::from_micros(number()?), Duration::from_micros(number()?));
    let created = Timestamp::from_micros(number()?);
    let (limit, key) = (parse_name(fields.next()?)?.into(), Key::from_text(&parse_name(fields.next()?)?)?);
    let token = HoldToken { limit, key, nonce, estimate, missing, next_after, age, created };
    fields.next().is_none().then_some(token)
}

fn parse_name(text: &str) -> Option<String> {
    let pairs = text.as_bytes().chunks(2);
    let byte = |pair: &[u8]| match pair.len() {
        2 => u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok(),
        _ => None,
    };
    String::from_utf8(pairs.map(byte).collect::<Option<_>>()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(key: Key<'_>) -> HoldToken<'_> {
        HoldToken {
            limit: "tokens".into(),
            key,
            nonce: 0x9d2c_41b0_7a5e_63f8,
            estimate: 1_000,
            missing: 1_200,
            next_after: Duration::from_micros(600),
            age: Duration::from_micros(7),
            created: Timestamp::from_millis(1_800_000_000_000),
        }
    }

    /// Tokens are stored, so neither the text nor the lease of a version may change.
    #[test]
    fn version_1_never_changes() {
        let (token, text) =
            (token(Key::from("ann")), "1.9d2c41b07a5e63f8.3e8.4b0.258.7.6651728988000.746f6b656e73.616e6e");
        assert_eq!(token.to_text().unwrap(), text);
        assert_eq!(HoldToken::parse(text).unwrap(), token);
        assert_eq!(token.lease().to_string(), "b3b559a7b72fbc96");
    }

    #[test]
    fn any_key_survives_the_text() {
        let long = "x".repeat(16_000);
        let keys = [
            Key::GLOBAL,
            Key::from(""),
            Key::from("a|b%c\n\0ü"),
            Key::from(("tenant", 7_u64)),
            Key::from("192.0.2.1").to_fallback(),
            Key::from("192.0.2.1").to_reserved(),
            Key::from(&*long),
        ];
        for key in keys {
            let token = token(key);
            let text = token.to_text().unwrap();
            assert!(text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'.'), "{text}");
            let read = HoldToken::parse(&text).unwrap();
            assert_eq!((&read, read.lease()), (&token, token.lease()));
        }
    }

    #[test]
    fn everything_bound_changes_the_lease() {
        let first = token(Key::from("ann"));
        let others = [
            HoldToken { limit: "token".into(), ..first.clone() },
            HoldToken { key: Key::from("bob"), ..first.clone() },
            HoldToken { key: Key::from("ann").to_fallback(), ..first.clone() },
            // Equal bytes, divided in another way.
            HoldToken { limit: "tokensa".into(), key: Key::from("nn"), ..first.clone() },
            HoldToken { nonce: first.nonce + 1, ..first.clone() },
            HoldToken { estimate: first.estimate + 1, ..first.clone() },
        ];
        for other in others {
            assert_ne!(other.lease(), first.lease(), "{other:?}");
        }
    }

    #[test]
    fn text_that_is_no_token_is_an_error() {
        let long = Key::from("x".repeat(17 << 10));
        assert!(matches!(token(long).to_text(), Err(HoldTokenError::TooLong(found)) if found > MAX_TOKEN_BYTES));
        let text = token(Key::from("ann")).to_text().unwrap();
        let too_long = format!("{text}{}", "0".repeat(MAX_TOKEN_BYTES));
        assert_eq!(HoldToken::parse(&too_long), Err(HoldTokenError::TooLong(too_long.len())));
        assert_eq!(HoldToken::parse(&text.replacen('1', "2", 1)), Err(HoldTokenError::UnknownVersion));
        let fields: Vec<_> = text.split('.').collect();
        let mut malformed: Vec<String> = ["", ".", "1", "1.", "..........", "é", "x.1"].map(str::to_owned).into();
        malformed.extend([format!("{text}."), format!("{text}.00"), format!(" {text}"), text.to_uppercase()]);
        for (index, field) in fields.iter().enumerate() {
            let with = |field: &str| {
                let mut fields = fields.clone();
                fields[index] = field;
                fields.join(".")
            };
            malformed.push([&fields[..index], &fields[index + 1..]].concat().join("."));
            malformed.extend(["+", "-1", "0x1", "11111111111111111", "g", "é"].map(with));
            if index > 6 {
                malformed.push(with(&format!("{field}0")));
            }
        }
        for text in malformed {
            let error = HoldToken::parse(&text).expect_err(&text);
            // The version is the first field, and another number there is another version.
            let is_version = error == HoldTokenError::UnknownVersion && !text.starts_with("1.");
            assert!(error == HoldTokenError::Malformed || is_version, "{text:?}: {error}");
        }
        assert!(HoldToken::parse(&text.replace("616e6e", "257a7a")).is_err(), "no key has the text `%zz`");
        assert!(HoldToken::parse(&text.replace("616e6e", "ff")).is_err(), "not UTF-8");
    }
}
