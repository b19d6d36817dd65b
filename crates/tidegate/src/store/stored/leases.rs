//! What a server that keeps leases itself is asked, and what its answer means.

use tidegate_core::{Decision, InFlightCount, Lease, Op, Quota, Timestamp};

use super::micros;

/// An operation on the leases of a key, as a server takes it.
pub(crate) struct PendingRequest<'a> {
    quota: &'a Quota,
    asked: Op,
    pub(crate) op: LeaseOp,
    pub(crate) capacity: u64,
    /// How long a lease lives, in microseconds.
    pub(crate) ttl: u64,
    /// How many places are asked for.
    pub(crate) need: u64,
}

/// What is done.
#[derive(Clone, Copy)]
pub(crate) enum LeaseOp {
    Look,
    Admit(Lease),
    Renew(Lease),
    Release(Lease),
}

impl<'a> PendingRequest<'a> {
    pub(crate) fn new(quota: &'a Quota, asked: Op) -> Self {
        let capacity = u64::from(quota.parts().capacity);
        let (op, need) = match asked {
            Op::Admit(lease) => (LeaseOp::Admit(lease), 1),
            Op::Renew(lease) => (LeaseOp::Renew(lease), 0),
            Op::Release(lease) => (LeaseOp::Release(lease), 0),
            // What is more than the capacity is as much as one more than that.
            Op::Check(cost) => (LeaseOp::Look, cost.get().min(capacity + 1)),
            // Not for leases, so it is denied, and says what there is.
            Op::Limit(_) | Op::Reserve(_) | Op::Refund(_) | Op::Reset => (LeaseOp::Look, 0),
        };
        PendingRequest { quota, asked, op, capacity, ttl: micros(quota.parts().period), need }
    }

    /// The decision, once the server has said whether it is allowed, how many are in flight then, and when so many will
    /// have expired that this fits, that another place is free, and that all are.
    pub(crate) fn decision(
        &self,
        allowed: bool,
        count: u64,
        [retry_at, next_at, new_at]: [Option<Timestamp>; 3],
        now: Timestamp,
    ) -> Decision {
        let allowed = allowed && self.quota.supports(self.asked);
        InFlightCount { count, retry_at, next_at, new_at }.decision(self.quota, self.asked, allowed, now)
    }
}
