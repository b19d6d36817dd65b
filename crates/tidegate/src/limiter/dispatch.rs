//! The way of a call to the store and back: deny lists, normalization, shards, shadow mode.
//!
//! Every decision of a limiter goes through [`Dispatch`]: immediate and awaited calls, batches, enforcers, transactions.
//! There is no shortcut around it. The store has one of its own, for a token bucket in memory.
//!
//! The functions that are `inline(always)` here are measured as a set; see record 0032.

use std::time::Duration;

use tidegate_core::{Algorithm, Decision, DynStore, Key, OnStoreError, Op, Quota, Request};

use super::Error;
use super::call::Call;
use super::registry::NamedLimit;
use crate::store::Decider;

/// One operation of a call on its limit, ready for the store. It is small, because it is moved; what few calls need is boxed.
pub(super) struct Dispatch<'a> {
    limit: &'a NamedLimit,
    key: &'a Key<'a>,
    /// The key in the store where it is not the call's own: normalized, or the one of a shard.
    store_key: Option<Box<Key<'a>>>,
    /// The quota to judge by: the limit's, the call's, or that of one of the limit's shards.
    quota: &'a Quota,
    /// The shard's part of the call's own quota.
    shard_quota: Option<Box<Quota>>,
    pub(super) op: Op,
    on_store_error: OnStoreError,
    /// Whether a deny list has answered. The store is not asked then.
    pub(super) is_denied: bool,
    capacity: u32,
}

impl<'a> Dispatch<'a> {
    #[inline(always)] // record 0032 has the measurement
    pub(super) fn new(call: &'a Call<'_>, limit: &'a NamedLimit, op: Op) -> Result<Self, Error> {
        let settings = &limit.limit;
        let quota = call.options.quota.unwrap_or(&settings.quota);
        if !quota.supports(op) {
            return Err(Error::unsupported(limit.name(), unsupported_op(quota)));
        }
        let store_key = settings.normalize.map(|normalize| Box::new(normalize.apply(&call.key)));
        let asks_to_pass = matches!(op, Op::Limit(_) | Op::Check(_) | Op::Reserve(_) | Op::Admit(_));
        let normalized = store_key.as_deref().unwrap_or(&call.key);
        let mut dispatch = Dispatch {
            limit,
            is_denied: asks_to_pass && limit.denies(&call.key, normalized, &call.options),
            key: &call.key,
            store_key,
            quota,
            shard_quota: None,
            op,
            on_store_error: call.options.on_store_error.unwrap_or(settings.on_store_error),
            capacity: quota.parts().capacity,
        };
        if settings.shards > 1 {
            dispatch.send_to_shard(call.options.quota)?;
        }
        Ok(dispatch)
    }

    /// Cuts the budget, and replaces the key by that of its shard.
    fn send_to_shard(&mut self, own_quota: Option<&Quota>) -> Result<(), Error> {
        let shard = self.limit.shard_of(self.store_key());
        match own_quota {
            None => self.quota = &self.limit.shards[shard],
            Some(quota) => self.shard_quota = Some(Box::new(quota.split(self.limit.limit.shards)?[shard])),
        }
        self.store_key = Some(Box::new(Key::shard(shard as u32)));
        Ok(())
    }

    #[inline]
    fn store_key(&self) -> &Key<'a> {
        self.store_key.as_deref().unwrap_or(self.key)
    }

    /// The request to the store.
    #[inline]
    pub(super) fn request(&self) -> Request<'_> {
        self.request_for(self.op)
    }

    /// The request for another operation than the call's.
    #[inline(always)] // record 0032 has the measurement
    pub(super) fn request_for(&self, op: Op) -> Request<'_> {
        let quota = self.shard_quota.as_deref().unwrap_or(self.quota);
        Request { scope: &self.limit.scope, key: self.store_key(), quota, op, on_store_error: self.on_store_error }
    }

    /// The store's answer without waiting. None when it has to be waited for; nothing was done then.
    #[inline(always)] // record 0032 has the measurement
    pub(super) fn try_decide(&self, store: &dyn DynStore) -> Option<Result<Decision, Error>> {
        if self.is_denied {
            return Some(Ok(self.finish(self.denial())));
        }
        match store.dyn_try_apply(&self.request())? {
            Ok(decision) => Some(Ok(self.finish(decision))),
            Err(error) => Some(Err(Error::Store(error))),
        }
    }

    /// The answer of `decider`.
    pub(super) async fn decide<D: Decider + ?Sized>(&self, decider: &D) -> Result<Decision, Error> {
        if self.is_denied {
            return Ok(self.finish(self.denial()));
        }
        Ok(self.finish(decider.decide(&self.request()).await?))
    }

    /// The answer of the deny list.
    pub(super) fn denial(&self) -> Decision {
        Decision::denied_by_list(self.capacity)
    }

    /// The answer to the caller: in shadow mode a denial becomes a permission that keeps its reason.
    #[inline(always)] // record 0032 has the measurement
    pub(super) fn finish(&self, decision: Decision) -> Decision {
        if self.limit.limit.shadow { decision.shadowed() } else { decision }
    }

    pub(super) fn is_shadow(&self) -> bool {
        self.limit.limit.shadow
    }

    /// The capacity of the whole quota, however many shards it has.
    pub(super) fn capacity(&self) -> u32 {
        self.capacity
    }

    /// The time in which the limit's own quota fills.
    pub(super) fn window(&self) -> Option<Duration> {
        self.limit.window
    }
}

/// Why a limit refuses an operation that its quota does not support.
fn unsupported_op(quota: &Quota) -> &'static str {
    match quota.algorithm() {
        Algorithm::Concurrency => "it counts leases in flight: use `admit`, `renew` and `release`",
        _ => "it counts units, and has no leases: `admit`, `renew` and `release` are for `concurrency`",
    }
}
