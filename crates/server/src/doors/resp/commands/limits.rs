//! The commands that decide: `TG.*` for limits of the config, `CL.THROTTLE` and `THROTTLE` with a quota of their own.
//!
//! `CL.THROTTLE` is redis-cell's and `THROTTLE` is throttlecrab's. They differ, so each has a budget of its own.

use tidegate::api::Op;
use tidegate::{Quota, QuotaError, seconds};

use super::super::Session;
use super::super::reply::{CommandError, quoted};
use super::super::request::{CommandRequest, ReplyFormat, key, unknown_limit};
use super::parse_number;
use crate::app::config::{CL_THROTTLE, THROTTLE};
use crate::request::DecisionRequest;

/// `TG.LIMIT limit key [cost]`.
#[inline]
pub(super) fn limit<'a>(words: &[&'a [u8]], _: &mut Session) -> Result<CommandRequest<'a>, CommandError> {
    named_limit(words, Op::Limit)
}

/// `TG.CHECK limit key [cost]`.
pub(super) fn check<'a>(words: &[&'a [u8]], _: &mut Session) -> Result<CommandRequest<'a>, CommandError> {
    named_limit(words, Op::Check)
}

/// `TG.RESET limit key`.
pub(super) fn reset<'a>(words: &[&'a [u8]], _: &mut Session) -> Result<CommandRequest<'a>, CommandError> {
    named_limit(words, Op::Reset)
}

#[inline]
fn named_limit<'a>(words: &[&'a [u8]], op: Op) -> Result<CommandRequest<'a>, CommandError> {
    let limit = str::from_utf8(words[1]).map_err(|_| unknown_limit(words[1]))?;
    let cost = match words.get(3) {
        None => 1,
        Some(word) => parse_number(word).filter(|cost| *cost > 0).ok_or_else(|| bad_cost(word))?,
    };
    let request = DecisionRequest::new(op, limit, key(words[2])?).with_cost(cost);
    Ok(CommandRequest { request, format: ReplyFormat::Tidegate })
}

fn bad_cost(word: &[u8]) -> CommandError {
    CommandError::new(format!("ERR cost is not a whole number from 1 on: found {}", quoted(word)))
}

/// `CL.THROTTLE key max_burst count_per_period period_seconds [quantity]`: at most `max_burst + 1` at once.
#[inline]
pub(super) fn cl_throttle<'a>(words: &[&'a [u8]], session: &mut Session) -> Result<CommandRequest<'a>, CommandError> {
    inline_quota(words, session, CL_THROTTLE, 1, ReplyFormat::RedisCell)
}

/// `THROTTLE key max_burst count_per_period period_seconds [quantity]`: at most `max_burst` at once.
#[inline]
pub(super) fn throttle<'a>(words: &[&'a [u8]], session: &mut Session) -> Result<CommandRequest<'a>, CommandError> {
    inline_quota(words, session, THROTTLE, 0, ReplyFormat::Throttlecrab)
}

#[inline]
fn inline_quota<'a>(
    words: &[&'a [u8]],
    session: &mut Session,
    limit: &'static str,
    beyond_burst: u64,
    format: ReplyFormat,
) -> Result<CommandRequest<'a>, CommandError> {
    let burst = argument("max_burst", words[2])?;
    let capacity = burst.saturating_add(beyond_burst);
    let rate = argument("count_per_period", words[3])?;
    let seconds = argument("period", words[4])?;
    let quota = session.last_quota.get(QuotaNumbers { capacity, rate, seconds })?;
    let quantity = words.get(5).map_or(Ok(1), |word| argument("quantity", word))?;
    // A quantity of 0 is a check.
    let (op, cost) = if quantity == 0 { (Op::Check, 1) } else { (Op::Limit, quantity) };
    let request = DecisionRequest { quota: Some(quota), ..DecisionRequest::new(op, limit, key(words[1])?) };
    Ok(CommandRequest { request: request.with_cost(cost), format })
}

#[inline]
fn argument(name: &str, word: &[u8]) -> Result<u64, CommandError> {
    parse_number(word).ok_or_else(|| {
        CommandError::new(format!("ERR {name} is not a whole number or out of range: found {}", quoted(word)))
    })
}

/// The numbers of a command's quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QuotaNumbers {
    pub(crate) capacity: u64,
    pub(crate) rate: u64,
    pub(crate) seconds: u64,
}

impl QuotaNumbers {
    fn quota(self) -> Result<Quota, QuotaError> {
        Quota::token_bucket(self.rate, seconds(self.seconds))?.capacity(self.capacity)
    }
}

/// The quota of the last command. Most clients send the same one each time, and building it costs more than using it.
#[derive(Debug, Default)]
pub(crate) struct LastQuota(Option<(QuotaNumbers, Quota)>);

impl LastQuota {
    /// Returns the quota of these numbers.
    #[inline]
    fn get(&mut self, numbers: QuotaNumbers) -> Result<Quota, CommandError> {
        match &self.0 {
            Some((known, quota)) if *known == numbers => Ok(*quota),
            _ => self.build(numbers),
        }
    }

    fn build(&mut self, numbers: QuotaNumbers) -> Result<Quota, CommandError> {
        let quota = numbers.quota().map_err(quota_error)?;
        self.0 = Some((numbers, quota));
        Ok(quota)
    }
}

/// Maps an error to the argument names of the command.
fn quota_error(error: QuotaError) -> CommandError {
    let what = match error.field() {
        "rate" => "count_per_period is not from 1 to 4294967295",
        "period" => "period is not from 1 second to 366 days",
        _ => "max_burst is out of range: the most that can be had at once is from 1 to 4294967295",
    };
    CommandError::new(format!("ERR {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_numbers_give_different_quotas() {
        let mut last = LastQuota::default();
        for (capacity, rate, seconds) in [(1, 2, 3), (1, 2, 3), (9, 2, 3), (9, 8, 3), (9, 8, 7), (1, 2, 3)] {
            let quota = last.get(QuotaNumbers { capacity, rate, seconds }).unwrap().parts();
            let found = (u64::from(quota.capacity), u64::from(quota.rate), quota.period.as_secs());
            assert_eq!(found, (capacity, rate, seconds));
        }
        // An invalid one is not cached.
        assert!(last.get(QuotaNumbers { capacity: 0, rate: 1, seconds: 1 }).is_err());
        assert!(last.get(QuotaNumbers { capacity: 0, rate: 1, seconds: 1 }).is_err());
    }
}
