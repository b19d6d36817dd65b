//! A decision request of a command, and the decision in the command's reply format.

use std::time::Duration;

use tidegate::api::{MAX_KEY_BYTES, Op};
use tidegate::{Decision, Error, Key, Reason, ceil_millis, ceil_seconds};

use super::reply::{CommandError, ReplyBuffer, quoted};
use crate::request::DecisionRequest;

/// A decision request, and how to reply to it.
#[derive(Debug)]
pub(crate) struct CommandRequest<'a> {
    pub(crate) request: DecisionRequest<'a>,
    pub(crate) format: ReplyFormat,
}

/// The reply format of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReplyFormat {
    /// redis-cell: 0 for allowed, and seconds.
    RedisCell,
    /// throttlecrab: 1 for allowed, and seconds, with the time to wait at the end.
    Throttlecrab,
    /// Tidegate: 1 for allowed, and milliseconds.
    Tidegate,
}

impl CommandRequest<'_> {
    #[inline]
    pub(crate) fn reply(&self, result: &Result<Decision, Error>, replies: &mut ReplyBuffer) {
        match result {
            Ok(decision) => replies.five_integers(self.fields(decision)),
            Err(error) => replies.error(command_error(error)),
        }
    }

    fn fields(&self, decision: &Decision) -> [i64; 5] {
        // A quantity of 0 is always allowed, except for a key on a deny list.
        let DecisionRequest { op, quota, .. } = &self.request;
        let is_zero_quantity = quota.is_some() && *op == Op::Check && decision.reason() != Some(Reason::Deny);
        let allowed = decision.allowed() || is_zero_quantity;
        let retry_after = if allowed { None } else { decision.retry_after() };
        let (limit, remaining, reset_after) = (decision.limit(), decision.remaining(), decision.reset_after());
        match self.format {
            ReplyFormat::RedisCell => [
                i64::from(!allowed),
                saturating_i64(limit),
                saturating_i64(remaining),
                wait_or_minus_one(retry_after, ceil_seconds),
                saturating_i64(ceil_seconds(reset_after)),
            ],
            ReplyFormat::Throttlecrab => [
                i64::from(allowed),
                saturating_i64(limit),
                saturating_i64(remaining),
                saturating_i64(ceil_seconds(reset_after)),
                if allowed { 0 } else { wait_or_minus_one(retry_after, ceil_seconds) },
            ],
            ReplyFormat::Tidegate => [
                i64::from(allowed),
                saturating_i64(limit),
                saturating_i64(remaining),
                wait_or_minus_one(retry_after, ceil_millis),
                saturating_i64(ceil_millis(reset_after)),
            ],
        }
    }
}

/// Reads the key of a command. Bytes that are not UTF-8 are keys, too.
#[inline]
pub(crate) fn key(bytes: &[u8]) -> Result<Key<'_>, CommandError> {
    if bytes.len() > MAX_KEY_BYTES {
        return Err(CommandError::new(format!(
            "ERR the key is too long: found {} bytes, expected at most {MAX_KEY_BYTES}",
            bytes.len()
        )));
    }
    Ok(match str::from_utf8(bytes) {
        Ok(text) => Key::from(text),
        Err(_) => Key::from(bytes.iter().copied().map(char::from).collect::<String>()).to_reserved(),
    })
}

fn saturating_i64(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn wait_or_minus_one(span: Option<Duration>, ceil: fn(Duration) -> u64) -> i64 {
    span.map_or(-1, |span| saturating_i64(ceil(span)))
}

/// Maps an error to a reply, without internal details.
#[cold]
fn command_error(error: &Error) -> CommandError {
    match error {
        Error::UnknownLimit(unknown) => unknown_limit(unknown.name.as_bytes()),
        Error::Closed => CommandError::from("UNAVAILABLE the server is about to end"),
        error if error.is_misuse() => CommandError::new(format!("ERR {error}")),
        _ => CommandError::from("UNAVAILABLE the store cannot be asked, and the limit admits nobody without it"),
    }
}

pub(crate) fn unknown_limit(name: &[u8]) -> CommandError {
    CommandError::new(format!("ERR unknown limit {}", quoted(name)))
}
