//! Operations on the states of keys, each run by a call of its own or in a batch.

use std::sync::atomic::Ordering;

use tidegate_core::{Algorithm, Op, Request, StoreError, Timestamp};

use super::arguments::{StepArguments, encode_time};
use super::reply::{self, KeyReply};
use super::script::Script;
use super::slot::Slot;
use super::{Connection, RedisStore, script};
use crate::store::codec::encode_quota;

/// One operation on the state of one key, as a script takes it.
pub(super) struct StateOperation {
    /// The key's name in Redis.
    pub(super) name: String,
    pub(super) script: &'static Script,
    pub(super) quota: Vec<u8>,
    /// Empty for an operation that only reads.
    pub(super) numbers: Vec<u8>,
    /// The time, when a test sets it.
    pub(super) at: Option<Timestamp>,
    /// The server takes long to run it: other operations would wait for it in the same call.
    pub(super) is_heavy: bool,
}

/// The largest capacity of a log that is not heavy.
const MAX_LIGHT_LOG: u32 = 1_000;

impl StateOperation {
    /// The arguments of a call about this key alone. `replacement` makes the script step from a rebased state.
    fn to_arguments(&self, replacement: Option<[Vec<u8>; 2]>) -> Vec<Vec<u8>> {
        if self.numbers.is_empty() {
            return vec![encode_time(self.at)];
        }
        let mut list = vec![self.quota.clone(), self.numbers.clone()];
        if self.at.is_some() || replacement.is_some() {
            list.push(encode_time(self.at));
        }
        list.extend(replacement.into_iter().flatten());
        list
    }
}

impl<C: Connection> RedisStore<C> {
    /// The operation that a request about a state stands for.
    pub(super) fn operation(&self, request: &Request<'_>, at: Option<Timestamp>) -> StateOperation {
        let (quota, op) = (request.quota, request.op);
        let name = self.key_names.state_name(request.scope, request.key);
        let is_heavy = quota.algorithm() == Algorithm::SlidingLog && quota.parts().capacity > MAX_LIGHT_LOG;
        match op {
            // A check needs only the stored value, which is short for all algorithms but this one.
            Op::Check(_) if quota.algorithm() != Algorithm::SlidingLog => {
                let (script, quota) = (&*script::READ, encode_quota(quota));
                StateOperation { name, script, quota, numbers: Vec::new(), at, is_heavy }
            }
            _ => {
                let StepArguments { quota: bytes, numbers } = StepArguments::from_op(quota, op, self.min_ttl);
                let script = script::step_script(quota.algorithm());
                StateOperation { name, script, quota: bytes, numbers, at, is_heavy }
            }
        }
    }

    /// Runs an operation as a call of its own.
    pub(super) async fn run_single(
        &self,
        operation: &StateOperation,
        replacement: Option<[Vec<u8>; 2]>,
    ) -> Result<KeyReply, StoreError> {
        let arguments = operation.to_arguments(replacement);
        reply::parse_single(self.run_script(operation.script, &[&operation.name], &arguments).await?)
    }

    /// The slot of an operation's key, if the server has slots: one call covers one of them.
    pub(super) fn slot(&self, operation: &StateOperation) -> Option<Slot> {
        (C::IS_CLUSTER || self.has_slots.load(Ordering::Relaxed)).then(|| Slot::of_name(&operation.name))
    }
}
