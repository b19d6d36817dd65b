//! What is asked of one key: alone, or in a call with others.

use std::sync::atomic::Ordering;

use redis::cluster_routing::Slot;
use tidegate_core::{Algorithm, Op, Request, StoreError, Timestamp};

use super::answer::{self, Answer};
use super::arguments::Arguments;
use super::script::Script;
use super::{Connection, RedisStore, given, script};
use crate::store::stored::quota_bytes;

/// One operation on the state of one key, as a script takes it.
pub(super) struct Ask {
    pub(super) name: String,
    pub(super) script: &'static Script,
    pub(super) quota: Vec<u8>,
    /// None for a look.
    pub(super) numbers: Vec<u8>,
    /// The time, when a test says it.
    pub(super) at: Option<Timestamp>,
    /// It takes the server long: others would wait for it in the same call.
    pub(super) is_heavy: bool,
}

/// A log with room for more than that is heavy.
const HEAVY: u32 = 1_000;

impl Ask {
    /// The arguments of a call about this key alone. `carried` is what a state of another quota comes to.
    fn list(&self, carried: Option<[Vec<u8>; 2]>) -> Vec<Vec<u8>> {
        if self.numbers.is_empty() {
            return vec![given(self.at)];
        }
        let mut list = vec![self.quota.clone(), self.numbers.clone()];
        if self.at.is_some() || carried.is_some() {
            list.push(given(self.at));
        }
        list.extend(carried.into_iter().flatten());
        list
    }
}

impl<C: Connection> RedisStore<C> {
    /// What a request that is about a state comes to.
    pub(super) fn ask(&self, request: &Request<'_>, at: Option<Timestamp>) -> Ask {
        let (quota, op) = (request.quota, request.op);
        let name = self.names.name(request.scope, request.key);
        let is_heavy = quota.algorithm() == Algorithm::SlidingLog && quota.parts().capacity > HEAVY;
        match op {
            // What is stored says everything, unless it is long.
            Op::Check(_) if quota.algorithm() != Algorithm::SlidingLog => {
                Ask { name, script: &script::LOOK, quota: quota_bytes(quota), numbers: Vec::new(), at, is_heavy }
            }
            _ => {
                let Arguments { quota: bytes, numbers } = Arguments::one(quota, op, self.min_ttl);
                Ask { name, script: script::step(quota.algorithm()), quota: bytes, numbers, at, is_heavy }
            }
        }
    }

    /// Asks with a call about this key alone.
    pub(super) async fn alone(&self, ask: &Ask, carried: Option<[Vec<u8>; 2]>) -> Result<Answer, StoreError> {
        answer::one(self.run(ask.script, &[&ask.name], &ask.list(carried)).await?)
    }

    /// Where a key is, if there is more than one place: one call is about one of them.
    pub(super) fn slot(&self, ask: &Ask) -> Option<Slot> {
        (C::CLUSTER || self.has_slots.load(Ordering::Relaxed)).then(|| Slot::for_key(&ask.name))
    }
}
