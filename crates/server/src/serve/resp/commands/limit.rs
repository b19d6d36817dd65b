//! Commands for the limits of the config.

use super::number;
use crate::json::Op;
use crate::serve::resp::question::{Form, Question, key, unknown_limit};
use crate::serve::resp::refusal::{Refusal, quoted};
use crate::serve::resp::session::Session;

/// `TG.LIMIT limit key [cost]`.
#[inline]
pub(super) fn limit<'a>(words: &[&'a [u8]], _: &mut Session) -> Result<Question<'a>, Refusal> {
    question(words, Op::Limit)
}

/// `TG.CHECK limit key [cost]`.
pub(super) fn check<'a>(words: &[&'a [u8]], _: &mut Session) -> Result<Question<'a>, Refusal> {
    question(words, Op::Check)
}

/// `TG.RESET limit key`.
pub(super) fn reset<'a>(words: &[&'a [u8]], _: &mut Session) -> Result<Question<'a>, Refusal> {
    question(words, Op::Reset)
}

#[inline]
fn question<'a>(words: &[&'a [u8]], op: Op) -> Result<Question<'a>, Refusal> {
    let limit = str::from_utf8(words[1]).map_err(|_| unknown_limit(words[1]))?;
    let cost = match words.get(3) {
        None => 1,
        Some(word) => number(word).filter(|cost| *cost > 0).ok_or_else(|| bad_cost(word))?,
    };
    Ok(Question { op, limit, key: key(words[2])?, cost, quota: None, form: Form::Own })
}

fn bad_cost(word: &[u8]) -> Refusal {
    Refusal::new(format!("ERR cost is not a whole number from 1 on: found {}", quoted(word)))
}
