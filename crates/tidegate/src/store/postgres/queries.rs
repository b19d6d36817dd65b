//! Queries that make decisions: one call of a function in the database for each.

use std::sync::Arc;

use tidegate_core::{
    Algorithm, Decision, JointDecision, Lease, Op, Request, State, StoreError, Timestamp, step, step_all,
};
use tokio_postgres::types::Type;

use super::arguments::{StepArguments, is_sliding_log, to_signed};
use super::client::Client;
use super::reply::{Effect, Replacement, ReplyRecord, RowSnapshot, column, format_array, timestamp};
use super::schema::Statements;
use crate::store::codec::{
    JointRequest, LeaseOp, LeaseRequest, MAX_REBASE_ATTEMPTS, check_agreement, contended, corrupt, encode_quota,
    lease_halves, state_to_numbers,
};
use crate::store::table::RowKeyEncoder;

/// The queries of a store. They run on any connection or transaction.
#[derive(Clone)]
pub(super) struct Queries {
    pub(super) row_keys: RowKeyEncoder,
    pub(super) statements: Arc<Statements>,
}

impl Queries {
    /// Decides one request.
    pub(super) async fn decide(
        &self,
        client: Client<'_>,
        request: &Request<'_>,
        test_time: Option<Timestamp>,
    ) -> Result<Decision, StoreError> {
        let row_key = self.row_keys.encode(request);
        match request.op {
            Op::Reset => self.reset(client, &row_key, request).await,
            _ if request.quota.algorithm() == Algorithm::Concurrency => {
                self.decide_leases(client, &row_key, request, test_time).await
            }
            Op::Check(_) if !is_sliding_log(request.quota) => self.check(client, &row_key, request, test_time).await,
            _ => self.step(client, &row_key, request, test_time).await,
        }
    }

    async fn reset(&self, client: Client<'_>, row_key: &[u8], request: &Request<'_>) -> Result<Decision, StoreError> {
        client.query_one(&self.statements.forget, &[(&row_key, Type::BYTEA)]).await?;
        // A key that was reset is as good as new at any time.
        Ok(step(request.quota, &mut State::New, Op::Reset, Timestamp::EPOCH).decision)
    }

    async fn check(
        &self,
        client: Client<'_>,
        row_key: &[u8],
        request: &Request<'_>,
        test_time: Option<Timestamp>,
    ) -> Result<Decision, StoreError> {
        let row = client.query_one(&self.statements.check, &[(&row_key, Type::BYTEA)]).await?;
        let snapshot = RowSnapshot::parse_check(&row)?;
        let now = test_time.unwrap_or(snapshot.now);
        let mut state = snapshot.state_under(request.quota, now)?;
        Ok(step(request.quota, &mut state, request.op, now).decision)
    }

    async fn step(
        &self,
        client: Client<'_>,
        row_key: &[u8],
        request: &Request<'_>,
        test_time: Option<Timestamp>,
    ) -> Result<Decision, StoreError> {
        let Request { quota, op, .. } = *request;
        let arguments = StepArguments::from_op(quota, op);
        let [n1, n2, n3, n4, shortcut] = &arguments.numbers;
        let test_micros = test_time.map(|time| to_signed(time.as_micros()));
        let mut replacement = Replacement::default();
        for _ in 0..MAX_REBASE_ATTEMPTS {
            let row = client
                .query_one(
                    &self.statements.step,
                    &[
                        (&row_key, Type::BYTEA),
                        (&arguments.quota, Type::BYTEA),
                        (&arguments.units, Type::INT8),
                        (&arguments.room, Type::INT8),
                        (n1, Type::INT8),
                        (n2, Type::INT8),
                        (n3, Type::INT8),
                        (n4, Type::INT8),
                        (shortcut, Type::INT8),
                        (&test_micros, Type::INT8),
                        (&replacement.expected_quota, Type::BYTEA),
                        (&replacement.expected_state, Type::INT8_ARRAY),
                        (&replacement.state, Type::INT8_ARRAY),
                    ],
                )
                .await?;
            let (snapshot, effect) = RowSnapshot::parse_step(&row, &arguments)?;
            let mut state = snapshot.state_under(quota, snapshot.now)?;
            if effect == Effect::OtherQuota && !matches!(op, Op::Check(_)) {
                replacement = snapshot.into_replacement(&state);
                continue;
            }
            let outcome = step(quota, &mut state, op, snapshot.now);
            let is_written = matches!(effect, Effect::Written | Effect::WrittenByShortcut);
            return check_agreement(outcome.changed, is_written).map(|()| outcome.decision);
        }
        Err(contended())
    }

    /// Decides one request about leases. Unlike a step, it needs no second call when the quota has changed.
    async fn decide_leases(
        &self,
        client: Client<'_>,
        row_key: &[u8],
        request: &Request<'_>,
        test_time: Option<Timestamp>,
    ) -> Result<Decision, StoreError> {
        let lease_request = LeaseRequest::new(request.quota, request.op);
        let (lease, op_code) = match lease_request.op {
            LeaseOp::Check => (Lease::from_bits(0), 0_i64),
            LeaseOp::Admit(lease) => (lease, 1),
            LeaseOp::Renew(lease) => (lease, 2),
            LeaseOp::Release(lease) => (lease, 3),
        };
        let quota = encode_quota(request.quota);
        let [high, low] = lease_halves(lease).map(to_signed);
        let [capacity, ttl, places] = [lease_request.capacity, lease_request.ttl, lease_request.places].map(to_signed);
        let test_micros = test_time.map(|time| to_signed(time.as_micros()));
        let row = client
            .query_one(
                &self.statements.leases,
                &[
                    (&row_key, Type::BYTEA),
                    (&quota, Type::BYTEA),
                    (&op_code, Type::INT8),
                    (&high, Type::INT8),
                    (&low, Type::INT8),
                    (&capacity, Type::INT8),
                    (&ttl, Type::INT8),
                    (&places, Type::INT8),
                    (&test_micros, Type::INT8),
                ],
            )
            .await?;
        let ReplyRecord(now, allowed, count, times): ReplyRecord<i64, Vec<Option<i64>>> = column(&row, 0)?;
        let times = times.into_iter().map(|at| at.map(timestamp).transpose()).collect::<Result<Vec<_>, _>>()?;
        let (Ok(times), Ok(count)) = (times.try_into(), u64::try_from(count)) else {
            return Err(corrupt("the function's answer is not ours"));
        };
        Ok(lease_request.decision(allowed == 1, count, times, timestamp(now)?))
    }

    /// Decides requests all or nothing.
    pub(super) async fn decide_joint(
        &self,
        client: Client<'_>,
        requests: &[Request<'_>],
        test_time: Option<Timestamp>,
    ) -> Result<JointDecision, StoreError> {
        let joint = JointRequest::new(requests, |request| self.row_keys.encode(request))?;
        // All calls lock rows in the same order, so they cannot deadlock.
        let mut order: Vec<usize> = (0..joint.names.len()).collect();
        order.sort_by_key(|index| &joint.names[*index]);
        let costs: Vec<_> = joint.costs_by_key().collect();
        let arguments: Vec<StepArguments> =
            order.iter().map(|index| StepArguments::from_cost(costs[*index].0, costs[*index].1)).collect();
        let row_keys: Vec<&[u8]> = order.iter().map(|index| &*joint.names[*index]).collect();
        let quotas: Vec<&[u8]> = arguments.iter().map(|arguments| &*arguments.quota).collect();
        let units: Vec<i64> = arguments.iter().map(|arguments| arguments.units).collect();
        let rooms: Vec<i64> = arguments.iter().map(|arguments| arguments.room).collect();
        let numbers: Vec<i64> = arguments.iter().flat_map(|arguments| arguments.numbers).collect();
        let test_micros = test_time.map(|time| to_signed(time.as_micros()));
        let mut replacements = vec![Replacement::<String>::default(); row_keys.len()];
        for _ in 0..MAX_REBASE_ATTEMPTS {
            let expected_quotas: Vec<_> = replacements.iter().map(|row| row.expected_quota.as_deref()).collect();
            let expected_states: Vec<_> = replacements.iter().map(|row| row.expected_state.as_deref()).collect();
            let new_states: Vec<_> = replacements.iter().map(|row| row.state.as_deref()).collect();
            let row = client
                .query_one(
                    &self.statements.joint,
                    &[
                        (&row_keys, Type::BYTEA_ARRAY),
                        (&quotas, Type::BYTEA_ARRAY),
                        (&units, Type::INT8_ARRAY),
                        (&rooms, Type::INT8_ARRAY),
                        (&numbers, Type::INT8_ARRAY),
                        (&test_micros, Type::INT8),
                        (&expected_quotas, Type::BYTEA_ARRAY),
                        (&expected_states, Type::TEXT_ARRAY),
                        (&new_states, Type::TEXT_ARRAY),
                    ],
                )
                .await?;
            let reply: ReplyRecord<Vec<Option<Vec<u8>>>, Vec<Option<String>>> = column(&row, 0)?;
            let ReplyRecord(now, effect, other_quotas, old_states) = reply;
            let (now, effect) = (timestamp(now)?, Effect::from_number(effect)?);
            if (other_quotas.len(), old_states.len()) != (row_keys.len(), row_keys.len()) {
                return Err(corrupt("the function's answer is not ours"));
            }
            let mut states = vec![State::New; row_keys.len()];
            for ((place, index), (quota, text)) in
                order.iter().enumerate().zip(other_quotas.into_iter().zip(old_states))
            {
                let snapshot = RowSnapshot::parse_joint(now, quota.clone(), text.as_deref())?;
                let state = snapshot.state_under(joint.quota(*index), now)?;
                if quota.is_some() {
                    let rebased = (state != State::New).then(|| format_array(&state_to_numbers(&state)));
                    replacements[place] = Replacement { expected_quota: quota, expected_state: text, state: rebased };
                }
                states[*index] = state;
            }
            if effect == Effect::OtherQuota {
                continue;
            }
            let decision = step_all(&joint.entries, &mut states, now);
            return check_agreement(decision.allowed(), effect == Effect::Written).map(|()| decision);
        }
        Err(contended())
    }
}
