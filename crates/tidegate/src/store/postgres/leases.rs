//! Leases: one call of a function of their own, which needs no second one when the quota has changed.

use tidegate_core::{Decision, Lease, Request, StoreError, Timestamp};
use tokio_postgres::types::Type;

use super::Asks;
use super::arguments::signed;
use super::client::Client;
use super::found::{Answer, read, timestamp};
use crate::store::stored::{LeaseOp, PendingRequest, corrupt, halves, quota_bytes};

impl Asks {
    pub(super) async fn decide_leases(
        &self,
        client: Client<'_>,
        name: &[u8],
        request: &Request<'_>,
        at: Option<Timestamp>,
    ) -> Result<Decision, StoreError> {
        let asking = PendingRequest::new(request.quota, request.op);
        let (lease, what) = match asking.op {
            LeaseOp::Look => (Lease::from_bits(0), 0_i64),
            LeaseOp::Admit(lease) => (lease, 1),
            LeaseOp::Renew(lease) => (lease, 2),
            LeaseOp::Release(lease) => (lease, 3),
        };
        let quota = quota_bytes(request.quota);
        let [high, low] = halves(lease).map(signed);
        let [capacity, ttl, need] = [asking.capacity, asking.ttl, asking.need].map(signed);
        let given = at.map(|at| signed(at.as_micros()));
        let row = client
            .row(
                &self.statements.leases,
                &[
                    (&name, Type::BYTEA),
                    (&quota, Type::BYTEA),
                    (&what, Type::INT8),
                    (&high, Type::INT8),
                    (&low, Type::INT8),
                    (&capacity, Type::INT8),
                    (&ttl, Type::INT8),
                    (&need, Type::INT8),
                    (&given, Type::INT8),
                ],
            )
            .await?;
        let Answer(now, done, count, times): Answer<i64, Vec<Option<i64>>> = read(&row, 0)?;
        let times = times.into_iter().map(|at| at.map(timestamp).transpose()).collect::<Result<Vec<_>, _>>()?;
        let (Ok(times), Ok(count)) = (times.try_into(), u64::try_from(count)) else {
            return Err(corrupt("the function's answer is not ours"));
        };
        Ok(asking.decision(done == 1, count, times, timestamp(now)?))
    }
}
