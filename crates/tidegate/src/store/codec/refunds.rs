//! Refunds of units that a denied all-or-nothing call has taken.

use std::time::Duration;

use tidegate_core::{Decision, Op, Request, StoreError, StoreErrorKind, Timestamp};

use crate::clock::{Clock, SteadyClock};

/// A timer that starts with an all-or-nothing call over keys that do not live together.
#[derive(Debug, Clone, Copy)]
pub struct RefundTimer {
    /// `None` in a test that passes in the time, which stands still.
    started_at: Option<Timestamp>,
}

impl RefundTimer {
    /// Starts the timer. With the time of a test, no time passes.
    pub fn start(test_time: Option<Timestamp>) -> Self {
        RefundTimer { started_at: if test_time.is_some() { None } else { Some(SteadyClock.now()) } }
    }

    /// Returns the requests that refund what these requests, by index, have taken since the start. A key gets no refund
    /// if any of its units may have been replenished meanwhile. Both together could exceed the quota, so the units stay
    /// taken.
    pub fn refunds<'a>(&self, requests: &[Request<'a>], taken: &[(usize, Decision)]) -> Vec<Request<'a>> {
        let elapsed = self.started_at.map_or(Duration::ZERO, |at| SteadyClock.now().since(at));
        refunds_after(elapsed, requests, taken)
    }
}

/// The error of an all-or-nothing call whose refunds failed.
pub fn refund_failed(error: StoreError) -> StoreError {
    let what = "the call was not granted, and not all that it had taken could be given back";
    StoreError::caused_by(StoreErrorKind::Unavailable, what, error)
}

fn refunds_after<'a>(elapsed: Duration, requests: &[Request<'a>], taken: &[(usize, Decision)]) -> Vec<Request<'a>> {
    let is_unreplenished = |decision: &Decision| decision.next_after().is_some_and(|next| elapsed < next);
    taken
        .iter()
        .filter(|(_, decision)| is_unreplenished(decision))
        .filter_map(|(index, _)| match requests[*index].op {
            Op::Limit(cost) => Some(Request { op: Op::Refund(cost), ..requests[*index] }),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use tidegate_core::{Cost, Key, OnStoreError, Quota, Scope, State, Timestamp, step};

    use super::*;
    use crate::{minutes, seconds};

    #[test]
    fn replenished_units_are_not_refunded() {
        let (scope, key) = (Scope::new("", "api"), Key::from("u1"));
        let quota = Quota::fixed_window(5, minutes(1)).unwrap();
        let op = Op::Limit(Cost::new(5).unwrap());
        let request = Request { scope: &scope, key: &key, quota: &quota, op, on_store_error: OnStoreError::Closed };
        // A second before the window ends.
        let decision = step(&quota, &mut State::New, op, Timestamp::from_millis(59_000)).decision;
        let refunded = |elapsed| {
            let refunds = refunds_after(elapsed, &[request], &[(0, decision)]);
            refunds.iter().map(|refund| refund.op).collect::<Vec<_>>()
        };
        assert_eq!(refunded(seconds(0)), [Op::Refund(Cost::new(5).unwrap())]);
        assert_eq!(refunded(seconds(1) - Duration::from_micros(1)).len(), 1);
        assert_eq!(refunded(seconds(1)), []);
        let check = Request { op: Op::Check(Cost::ONE), ..request };
        assert!(refunds_after(seconds(0), &[check], &[(0, decision)]).is_empty(), "nothing was taken");
    }
}
