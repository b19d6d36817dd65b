//! Batches: several independent operations in one script call.

use std::error::Error;
use std::sync::atomic::Ordering;

use redis::RedisError;
use tidegate_core::{Algorithm, Decision, Op, Request, StoreError};

use super::arguments::encode_time;
use super::operation::StateOperation;
use super::reply::{self, KeyReply};
use super::{Connection, RedisStore, script};
use crate::store::codec::decide_by_key;

/// The most operations in one call: more would save little, and the server serves no other client meanwhile.
pub(super) const MAX_BATCH_LEN: usize = 64;

impl<C: Connection> RedisStore<C> {
    /// Runs operations on keys of one slot in one call, at one time and in order. An operation without a reply has
    /// changed nothing and needs a call of its own: either it failed, or one before it on the same key has no reply.
    pub(super) async fn run_batch(&self, operations: &[&StateOperation]) -> Result<Vec<Option<KeyReply>>, StoreError> {
        let mut kinds: Vec<[&Vec<u8>; 2]> = Vec::new();
        let mut kind_numbers = Vec::with_capacity(operations.len());
        for operation in operations {
            let kind = [&operation.quota, &operation.numbers];
            let known = kinds.iter().position(|known| *known == kind).unwrap_or_else(|| {
                kinds.push(kind);
                kinds.len() - 1
            });
            kind_numbers.push(known as u8 + 1);
        }
        let mut list = vec![encode_time(operations.first().and_then(|operation| operation.at)), kind_numbers];
        list.extend(kinds.into_iter().flatten().cloned());
        let names: Vec<&str> = operations.iter().map(|operation| &*operation.name).collect();
        match self.run_script(&script::BATCH, &names, &list).await {
            Ok(reply) => reply::parse_batch(reply, operations.len()),
            // Nothing was run, and the permission may be missing for only one of the keys.
            Err(error) if has_error_code(&error, "NOPERM") => Ok(vec![None; operations.len()]),
            // The slot moves, and some of the keys have moved. Nothing was run.
            Err(error) if has_error_code(&error, "TRYAGAIN") => Ok(vec![None; operations.len()]),
            // The connection is to a single node of a cluster.
            Err(error) if has_error_code(&error, "CROSSSLOT") => {
                self.has_slots.store(true, Ordering::Relaxed);
                Ok(vec![None; operations.len()])
            }
            Err(error) => Err(error),
        }
    }

    /// The operations of these requests, if batches can run all of them.
    fn batch_operations(&self, requests: &[Request<'_>]) -> Option<Vec<StateOperation>> {
        let is_state = |request: &Request<'_>| {
            request.quota.algorithm() != Algorithm::Concurrency && !matches!(request.op, Op::Reset)
        };
        if self.batcher.is_none() || requests.len() < 2 || !requests.iter().all(is_state) {
            return None;
        }
        let operations: Vec<StateOperation> = requests.iter().map(|request| self.operation(request, None)).collect();
        let can_share =
            |operation: &StateOperation| !operation.is_heavy && self.slot(operation) == self.slot(&operations[0]);
        let can_share = operations.iter().all(can_share);
        can_share.then_some(operations)
    }

    /// Decides independent requests in order, in as few calls as possible where the keys are in one slot.
    pub(super) async fn decide_batch(&self, requests: &[Request<'_>]) -> Vec<Result<Decision, StoreError>> {
        let Some(operations) = self.batch_operations(requests) else {
            return decide_by_key(requests, |index| self.decide(&requests[index], None)).await;
        };
        let mut decisions = Vec::with_capacity(operations.len());
        for (requests, operations) in requests.chunks(MAX_BATCH_LEN).zip(operations.chunks(MAX_BATCH_LEN)) {
            let replies = match self.run_batch(&operations.iter().collect::<Vec<_>>()).await {
                Ok(replies) => replies.into_iter().map(Ok).collect(),
                Err(error) => vec![Err(error); operations.len()],
            };
            let decide = |index: usize| {
                let (request, operation, reply) = (&requests[index], &operations[index], replies[index].clone());
                async move { self.decide_from_reply(request, operation, reply?).await }
            };
            decisions.extend(decide_by_key(requests, decide).await);
        }
        decisions
    }
}

/// Whether the server has answered with this error code.
pub(super) fn has_error_code(error: &StoreError, code: &str) -> bool {
    let redis = error.source().and_then(|source| source.downcast_ref::<RedisError>());
    redis.is_some_and(|error| error.code() == Some(code))
}
