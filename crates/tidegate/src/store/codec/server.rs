//! Operations as arguments of a database server, for stores whose server makes the decision.

use std::collections::HashMap;
use std::future::Future;

use futures_util::future::join_all;
use tidegate_core::{
    Decision, InFlightCount, Lease, MAX_COUNT, Op, Quota, Request, StoreError, StoreErrorKind, Timestamp,
};

use super::micros;

/// The number of attempts to rebase a state that another quota wrote. An attempt fails when a call with a third quota
/// is faster.
pub(crate) const MAX_REBASE_ATTEMPTS: usize = 8;

/// The error of a call that found another quota at every attempt.
pub(crate) fn contended() -> StoreError {
    let why = "the key is asked for under other quotas all the time, faster than it can be carried over";
    StoreError::new(StoreErrorKind::Contended, why)
}

/// Checks that the core decides about the stored state as the server has.
pub(crate) fn check_agreement(core: bool, server: bool) -> Result<(), StoreError> {
    if core == server {
        return Ok(());
    }
    let why = "the server and the core do not agree on the decision: what is stored is damaged";
    Err(StoreError::new(StoreErrorKind::Corrupt, why))
}

/// Units that an operation takes or refunds, and when they fit.
pub(crate) struct UnitDelta {
    pub(crate) units: u64,
    pub(crate) is_refund: bool,
    /// The most that may be used already for the units to fit. `None` when they never fit.
    pub(crate) room: Option<u64>,
}

impl UnitDelta {
    pub(crate) fn from_op(op: Op, quota: &Quota) -> Self {
        match op {
            Op::Limit(cost) | Op::Check(cost) => Self::from_units(cost.get(), quota, 0),
            Op::Reserve(cost) => Self::from_units(cost.get(), quota, quota.slack()),
            Op::Refund(cost) => UnitDelta { is_refund: true, ..Self::from_units(cost.get(), quota, 0) },
            Op::Reset => UnitDelta { is_refund: true, ..Self::from_units(u64::MAX, quota, 0) },
            // Leases are not units of a rate, so they never fit.
            Op::Admit(_) | Op::Renew(_) | Op::Release(_) => UnitDelta { units: 0, is_refund: false, room: None },
        }
    }

    /// Units that are taken, at most `slack` beyond the capacity.
    pub(crate) fn from_units(units: u64, quota: &Quota, slack: u64) -> Self {
        let room = u64::from(quota.parts().capacity).checked_sub(units).map(|left| left + slack);
        // More than that is never used, so more cannot be refunded.
        UnitDelta { units: units.min(2 * MAX_COUNT), is_refund: false, room }
    }
}

/// An operation on the leases of a key, for a server that keeps them.
pub(crate) struct LeaseRequest<'a> {
    quota: &'a Quota,
    /// The operation that the caller wants, which leases may not support.
    caller_op: Op,
    pub(crate) op: LeaseOp,
    pub(crate) capacity: u64,
    /// How long a lease lives, in microseconds.
    pub(crate) ttl: u64,
    /// The number of free places that `op` needs.
    pub(crate) places: u64,
}

/// An operation that the server applies to leases.
#[derive(Clone, Copy)]
pub(crate) enum LeaseOp {
    Check,
    Admit(Lease),
    Renew(Lease),
    Release(Lease),
}

impl<'a> LeaseRequest<'a> {
    pub(crate) fn new(quota: &'a Quota, caller_op: Op) -> Self {
        let capacity = u64::from(quota.parts().capacity);
        let (op, places) = match caller_op {
            Op::Admit(lease) => (LeaseOp::Admit(lease), 1),
            Op::Renew(lease) => (LeaseOp::Renew(lease), 0),
            Op::Release(lease) => (LeaseOp::Release(lease), 0),
            // Any number beyond the capacity is as good as one more than the capacity.
            Op::Check(cost) => (LeaseOp::Check, cost.get().min(capacity + 1)),
            // Leases do not support these: the decision is a denial that reports the current state.
            Op::Limit(_) | Op::Reserve(_) | Op::Refund(_) | Op::Reset => (LeaseOp::Check, 0),
        };
        LeaseRequest { quota, caller_op, op, capacity, ttl: micros(quota.parts().period), places }
    }

    /// Returns the decision for the server's answer: whether it allows the operation, how many leases are in flight
    /// after it, and three times. At the first, enough leases have expired for this request; at the second, for one
    /// more place; at the third, all of them.
    pub(crate) fn decision(
        &self,
        allowed: bool,
        count: u64,
        [retry_at, next_at, new_at]: [Option<Timestamp>; 3],
        now: Timestamp,
    ) -> Decision {
        let allowed = allowed && self.quota.supports(self.caller_op);
        InFlightCount { count, retry_at, next_at, new_at }.decision(self.quota, self.caller_op, allowed, now)
    }
}

/// Decides about many requests, each on its own. Keys run concurrently; the requests of one key run in order, because a
/// decision may take a second call to the server. Renewals and releases of different leases never do: those of one key run
/// concurrently, too, in a list that has nothing else.
pub(crate) async fn decide_by_key<F>(
    requests: &[Request<'_>],
    decide: impl Fn(usize) -> F,
) -> Vec<Result<Decision, StoreError>>
where
    F: Future<Output = Result<Decision, StoreError>>,
{
    let in_order = group_by_key(requests).into_iter().map(async |indices| {
        let mut results = Vec::with_capacity(indices.len());
        for index in indices {
            results.push((index, decide(index).await));
        }
        results
    });
    let mut results: Vec<_> = join_all(in_order).await.into_iter().flatten().collect();
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

/// The indices of the requests of each key, or of each lease of a key. Groups are in the order of their first requests.
fn group_by_key(requests: &[Request<'_>]) -> Vec<Vec<usize>> {
    let held_lease = |request: &Request<'_>| match request.op {
        Op::Renew(lease) | Op::Release(lease) => Some(lease),
        _ => None,
    };
    let is_by_lease = requests.iter().all(|request| held_lease(request).is_some());
    let (mut groups, mut group_indices) = (Vec::new(), HashMap::new());
    for (index, request) in requests.iter().enumerate() {
        let lease = held_lease(request).filter(|_| is_by_lease);
        let group = *group_indices.entry((request.scope.as_str(), request.key.as_raw(), lease)).or_insert(groups.len());
        if group == groups.len() {
            groups.push(Vec::new());
        }
        groups[group].push(index);
    }
    groups
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::pending;
    use std::pin::pin;
    use std::task::{Context, Waker};

    use tidegate_core::{Cost, Key, OnStoreError, Scope, seconds};

    use super::*;

    /// Returns how many of these operations on one key are under way before the first is answered.
    fn started(ops: &[Op]) -> usize {
        let (scope, key, quota) = (Scope::new("", "a"), Key::from("u"), Quota::concurrency(9, seconds(1)).unwrap());
        let request = |op| Request { scope: &scope, key: &key, quota: &quota, op, on_store_error: OnStoreError::Open };
        let requests: Vec<_> = ops.iter().copied().map(request).collect();
        let started = Cell::new(0);
        let decide = |_| async {
            started.set(started.get() + 1);
            pending().await
        };
        let decided = pin!(decide_by_key(&requests, decide));
        assert!(decided.poll(&mut Context::from_waker(Waker::noop())).is_pending());
        started.get()
    }

    #[test]
    fn leases_of_one_key_are_renewed_and_released_concurrently() {
        let [first, second] = [1, 2].map(Lease::from_bits);
        assert_eq!(started(&[Op::Renew(first), Op::Renew(second), Op::Release(Lease::from_bits(3))]), 3);
        assert_eq!(started(&[Op::Renew(first), Op::Release(first)]), 1, "of one lease in order");
        assert_eq!(started(&[Op::Release(first), Op::Admit(second)]), 1, "it needs the place that comes free");
        assert_eq!(started(&[Op::Renew(first), Op::Check(Cost::ONE)]), 1);
    }
}
