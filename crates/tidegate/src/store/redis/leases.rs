//! Leases: a sorted set for each key, and one script for all that is done to them.

use tidegate_core::{Decision, Request, StoreError, Timestamp};

use super::answer::{self, Done};
use super::codec::doubles;
use super::{Connection, RedisStore, given, script};
use crate::store::stored::{LeaseOp, PendingRequest, corrupt};

impl<C: Connection> RedisStore<C> {
    /// One operation on the leases of one key, whose name is `name`.
    pub(super) async fn decide_leases(
        &self,
        name: &str,
        request: &Request<'_>,
        at: Option<Timestamp>,
    ) -> Result<Decision, StoreError> {
        let asking = PendingRequest::new(request.quota, request.op);
        let (lease, what) = match asking.op {
            LeaseOp::Look => (String::new(), 0),
            LeaseOp::Admit(lease) => (lease.to_string(), 1),
            LeaseOp::Renew(lease) => (lease.to_string(), 2),
            LeaseOp::Release(lease) => (lease.to_string(), 3),
        };
        let numbers = doubles([self.min_ttl, what, asking.capacity, asking.ttl, asking.need]);
        let mut list = vec![lease.into_bytes(), numbers];
        list.extend(at.map(|at| given(Some(at))));
        let answer = answer::one(self.run(&script::LEASES, &[name], &list).await?)?;
        let numbers = answer.value.as_deref().map_or(&[][..], |value| value.as_chunks().0);
        let &[count, retry, next, new] = numbers else {
            return Err(corrupt("the script's answer is not ours"));
        };
        let number = |bytes| f64::from_le_bytes(bytes);
        let time = |bytes| Some(number(bytes)).filter(|at| *at >= 0.0).map(|at| Timestamp::from_micros(at as u64));
        let [retry, next, new] = [retry, next, new].map(time);
        let allowed = answer.done == Done::Written;
        Ok(asking.decision(allowed, number(count) as u64, [retry, next, new], answer.now))
    }
}
