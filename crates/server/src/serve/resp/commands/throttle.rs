//! Commands that bring their quota with them. They are two programs' and not the same: each has a budget of its own.

use super::number;
use super::quota::Numbers;
use crate::json::Op;
use crate::serve::resp::question::{Form, Question, key};
use crate::serve::resp::refusal::{Refusal, quoted};
use crate::serve::resp::session::Session;
use crate::serve::served::{CL_THROTTLE, THROTTLE};

/// `CL.THROTTLE key max_burst count_per_period period_seconds [quantity]`: at most `max_burst + 1` at once.
#[inline]
pub(super) fn cell<'a>(words: &[&'a [u8]], session: &mut Session) -> Result<Question<'a>, Refusal> {
    question(words, session, CL_THROTTLE, 1, Form::Cell)
}

/// `THROTTLE key max_burst count_per_period period_seconds [quantity]`: at most `max_burst` at once.
#[inline]
pub(super) fn crab<'a>(words: &[&'a [u8]], session: &mut Session) -> Result<Question<'a>, Refusal> {
    question(words, session, THROTTLE, 0, Form::Crab)
}

#[inline]
fn question<'a>(
    words: &[&'a [u8]],
    session: &mut Session,
    limit: &'static str,
    beyond_burst: u64,
    form: Form,
) -> Result<Question<'a>, Refusal> {
    let burst = argument("max_burst", words[2])?;
    let capacity = burst.saturating_add(beyond_burst);
    let rate = argument("count_per_period", words[3])?;
    let seconds = argument("period", words[4])?;
    let quota = session.quotas.of(Numbers { capacity, rate, seconds })?;
    let quantity = words.get(5).map_or(Ok(1), |word| argument("quantity", word))?;
    // To ask for nothing is to look.
    let (op, cost) = if quantity == 0 { (Op::Check, 1) } else { (Op::Limit, quantity) };
    Ok(Question { op, limit, key: key(words[1])?, cost, quota: Some(quota), form })
}

#[inline]
fn argument(name: &str, word: &[u8]) -> Result<u64, Refusal> {
    number(word).ok_or_else(|| {
        Refusal::new(format!("ERR {name} is not a whole number or out of range: found {}", quoted(word)))
    })
}
