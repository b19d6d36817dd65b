//! What a command asks of a limit, and the answer as the command gives it.

use std::time::Duration;

use tidegate::{Decision, Error, Key, Quota, Reason, ceil_millis, ceil_seconds};

use super::refusal::{Refusal, quoted};
use super::reply::Replies;
use crate::json::{MAX_KEY, Op};
use crate::serve::gate::Ask;

/// What a command asks of a limit.
#[derive(Debug)]
pub(crate) struct Question<'a> {
    pub(crate) op: Op,
    pub(crate) limit: &'a str,
    pub(crate) key: Key<'a>,
    pub(crate) cost: u64,
    /// The quota that the command has brought.
    pub(crate) quota: Option<Quota>,
    pub(crate) form: Form,
}

/// In which form a command answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// As redis-cell does: 0 for allowed, and seconds.
    Cell,
    /// As throttlecrab does: 1 for allowed, and seconds, with the time to wait at the end.
    Crab,
    /// As Tidegate does: 1 for allowed, and milliseconds.
    Own,
}

impl Question<'_> {
    #[inline]
    pub(crate) fn ask(&self) -> Ask<'_> {
        let Question { op, limit, cost, .. } = *self;
        Ask { op, limit, key: self.key.borrow(), cost, quota: self.quota.as_ref(), whole_key: None }
    }

    #[inline]
    pub(crate) fn answer(&self, answer: &Result<Decision, Error>, replies: &mut Replies) {
        match answer {
            Ok(decision) => replies.five(self.fields(decision)),
            Err(error) => replies.error(refusal(error)),
        }
    }

    fn fields(&self, decision: &Decision) -> [i64; 5] {
        // A command that asks for nothing gets it, whatever is left; but nobody who is on a deny list gets anything.
        let looks = self.quota.is_some() && self.op == Op::Check && decision.reason() != Some(Reason::Deny);
        let allowed = decision.allowed() || looks;
        let retry_after = if allowed { None } else { decision.retry_after() };
        let (limit, remaining, reset_after) = (decision.limit(), decision.remaining(), decision.reset_after());
        match self.form {
            Form::Cell => [
                i64::from(!allowed),
                whole(limit),
                whole(remaining),
                wait(retry_after, ceil_seconds),
                whole(ceil_seconds(reset_after)),
            ],
            Form::Crab => [
                i64::from(allowed),
                whole(limit),
                whole(remaining),
                whole(ceil_seconds(reset_after)),
                if allowed { 0 } else { wait(retry_after, ceil_seconds) },
            ],
            Form::Own => [
                i64::from(allowed),
                whole(limit),
                whole(remaining),
                wait(retry_after, ceil_millis),
                whole(ceil_millis(reset_after)),
            ],
        }
    }
}

/// The key in a command. Bytes that are no text are keys as well.
#[inline]
pub(crate) fn key(bytes: &[u8]) -> Result<Key<'_>, Refusal> {
    if bytes.len() > MAX_KEY {
        return Err(Refusal::new(format!(
            "ERR the key is too long: found {} bytes, expected at most {MAX_KEY}",
            bytes.len()
        )));
    }
    Ok(match str::from_utf8(bytes) {
        Ok(text) => Key::from(text),
        Err(_) => Key::from(bytes.iter().copied().map(char::from).collect::<String>()).set_apart(),
    })
}

fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn wait(span: Option<Duration>, ceil: fn(Duration) -> u64) -> i64 {
    span.map_or(-1, |span| whole(ceil(span)))
}

/// What went wrong, as far as it is the client's business.
#[cold]
fn refusal(error: &Error) -> Refusal {
    match error {
        Error::UnknownLimit(unknown) => unknown_limit(unknown.name.as_bytes()),
        Error::Closed => Refusal::from("UNAVAILABLE the server is about to end"),
        error if error.is_misuse() => Refusal::new(format!("ERR {error}")),
        _ => Refusal::from("UNAVAILABLE the store cannot be asked, and the limit admits nobody without it"),
    }
}

pub(crate) fn unknown_limit(name: &[u8]) -> Refusal {
    Refusal::new(format!("ERR unknown limit {}", quoted(name)))
}
