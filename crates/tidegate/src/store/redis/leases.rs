//! Leases: a sorted set per key, and one script for all operations on them.

use tidegate_core::{Decision, Request, StoreError, Timestamp};

use super::arguments::encode_time;
use super::reply::{self, Effect};
use super::value::encode_doubles;
use super::{Connection, RedisStore, script};
use crate::store::codec::{LeaseOp, LeaseRequest, corrupt};

impl<C: Connection> RedisStore<C> {
    /// Decides one operation on the leases of one key, whose name is `name`.
    pub(super) async fn decide_leases(
        &self,
        name: &str,
        request: &Request<'_>,
        at: Option<Timestamp>,
    ) -> Result<Decision, StoreError> {
        let lease_request = LeaseRequest::new(request.quota, request.op);
        let (lease, action) = match lease_request.op {
            LeaseOp::Check => (String::new(), 0),
            LeaseOp::Admit(lease) => (lease.to_string(), 1),
            LeaseOp::Renew(lease) => (lease.to_string(), 2),
            LeaseOp::Release(lease) => (lease.to_string(), 3),
        };
        let numbers =
            encode_doubles([self.min_ttl, action, lease_request.capacity, lease_request.ttl, lease_request.places]);
        let mut list = vec![lease.into_bytes(), numbers];
        list.extend(at.map(|at| encode_time(Some(at))));
        let reply = reply::parse_single(self.run_script(&script::LEASES, &[name], &list).await?)?;
        let numbers = reply.value.as_deref().map_or(&[][..], |value| value.as_chunks().0);
        let &[count, retry, next, new] = numbers else {
            return Err(corrupt("the script's answer is not ours"));
        };
        let number = |bytes| f64::from_le_bytes(bytes);
        let time = |bytes| Some(number(bytes)).filter(|at| *at >= 0.0).map(|at| Timestamp::from_micros(at as u64));
        let [retry, next, new] = [retry, next, new].map(time);
        let allowed = reply.effect == Effect::Written;
        Ok(lease_request.decision(allowed, number(count) as u64, [retry, next, new], reply.now))
    }
}
