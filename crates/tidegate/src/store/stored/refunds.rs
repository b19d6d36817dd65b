//! Giving back what an all-or-nothing call has taken that was not granted.

use std::time::Duration;

use tidegate_core::{Decision, Op, Request, StoreError, StoreErrorKind, Timestamp};

use crate::clock::{Clock, SteadyClock};

/// When an all-or-nothing call began whose keys do not live together.
#[derive(Debug, Clone, Copy)]
pub struct Begun {
    /// None in a test that says the time, which stands still.
    at: Option<Timestamp>,
}

impl Begun {
    /// Now, or at the time of a test.
    pub fn now(test: Option<Timestamp>) -> Self {
        Begun { at: if test.is_some() { None } else { Some(SteadyClock.now()) } }
    }

    /// What gives back what these requests, by number, have taken since then. Nothing for a key to which something has
    /// come back by itself meanwhile: together that could be more than the quota, so it stays taken.
    pub fn refunds<'a>(&self, requests: &[Request<'a>], taken: &[(usize, Decision)]) -> Vec<Request<'a>> {
        let elapsed = self.at.map_or(Duration::ZERO, |at| SteadyClock.now().since(at));
        refunds(requests, taken, elapsed)
    }
}

/// What is said when that failed.
pub fn not_given_back(error: StoreError) -> StoreError {
    let what = "the call was not granted, and not all that it had taken could be given back";
    StoreError::caused_by(StoreErrorKind::Unavailable, what, error)
}

/// The same, so long after they were asked.
fn refunds<'a>(requests: &[Request<'a>], taken: &[(usize, Decision)], elapsed: Duration) -> Vec<Request<'a>> {
    let is_all_out = |decision: &Decision| decision.next_after().is_some_and(|next| elapsed < next);
    taken
        .iter()
        .filter(|(_, decision)| is_all_out(decision))
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
    fn what_has_come_back_by_itself_is_not_given_back_as_well() {
        let (scope, key) = (Scope::new("", "api"), Key::from("u1"));
        let quota = Quota::fixed_window(5, minutes(1)).unwrap();
        let op = Op::Limit(Cost::new(5).unwrap());
        let request = Request { scope: &scope, key: &key, quota: &quota, op, on_store_error: OnStoreError::Closed };
        // A second before the window ends.
        let decision = step(&quota, &mut State::New, op, Timestamp::from_millis(59_000)).decision;
        let given =
            |elapsed| refunds(&[request], &[(0, decision)], elapsed).iter().map(|back| back.op).collect::<Vec<_>>();
        assert_eq!(given(seconds(0)), [Op::Refund(Cost::new(5).unwrap())]);
        assert_eq!(given(seconds(1) - Duration::from_micros(1)).len(), 1);
        assert_eq!(given(seconds(1)), []);
        let look = Request { op: Op::Check(Cost::ONE), ..request };
        assert!(refunds(&[look], &[(0, decision)], seconds(0)).is_empty(), "nothing was taken");
    }
}
