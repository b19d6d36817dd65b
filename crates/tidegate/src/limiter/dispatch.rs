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

/// One operation of a call on its limit, ready for the store. It is small plain fields, so that a compiler keeps it in
/// registers.
pub(super) struct Dispatch<'a> {
    limit: &'a NamedLimit,
    key: &'a Key<'a>,
    /// The quota to judge by: the limit's or the call's.
    quota: &'a Quota,
    pub(super) op: Op,
    on_store_error: OnStoreError,
    /// Whether a deny list has answered. The store is not asked then.
    is_denied: bool,
    detour: Option<Box<Detour<'a>>>,
}

/// What normalization and shards make of a call.
struct Detour<'a> {
    /// The key in the store: normalized, or the one of a shard.
    store_key: Key<'a>,
    /// The quota of the key's shard.
    shard_quota: Option<Quota>,
}

impl<'a> Dispatch<'a> {
    #[inline(always)] // record 0032 has the measurement
    pub(super) fn new(call: &'a Call<'_>, limit: &'a NamedLimit, op: Op) -> Result<Self, Error> {
        let quota = call.options.quota.unwrap_or(&limit.limit.quota);
        if !quota.supports(op) {
            return Err(Error::unsupported(limit.name(), unsupported_op(quota)));
        }
        let (is_denied, detour) = match limit.is_plain {
            true => (false, None),
            false => denial_and_detour(call, limit, op)?,
        };
        // Shadow mode never denies, whatever state the store is in.
        let on_store_error = match limit.limit.shadow {
            true => OnStoreError::Open,
            false => call.options.on_store_error.unwrap_or(limit.limit.on_store_error),
        };
        Ok(Dispatch { limit, key: &call.key, quota, op, on_store_error, is_denied, detour })
    }

    /// The request to the store.
    #[inline]
    pub(super) fn request(&self) -> Request<'_> {
        self.request_for(self.op)
    }

    /// The request for another operation than the call's.
    #[inline(always)] // record 0032 has the measurement
    pub(super) fn request_for(&self, op: Op) -> Request<'_> {
        let (mut key, mut quota) = (self.key, self.quota);
        if let Some(detour) = &self.detour {
            key = &detour.store_key;
            quota = detour.shard_quota.as_ref().unwrap_or(quota);
        }
        Request { scope: &self.limit.scope, key, quota, op, on_store_error: self.on_store_error }
    }

    /// The store's answer without waiting. None when it has to be waited for; nothing was done then.
    #[inline(always)] // record 0032 has the measurement
    pub(super) fn try_decide(&self, store: &dyn DynStore) -> Option<Result<Decision, Error>> {
        if self.is_denied() {
            return Some(Ok(self.finish(self.denial())));
        }
        match store.dyn_try_apply(&self.request())? {
            Ok(decision) => Some(Ok(self.finish(decision))),
            Err(error) => Some(Err(Error::Store(error))),
        }
    }

    /// The answer of `decider`.
    pub(super) async fn decide<D: Decider + ?Sized>(&self, decider: &D) -> Result<Decision, Error> {
        if self.is_denied() {
            return Ok(self.finish(self.denial()));
        }
        Ok(self.finish(decider.decide(&self.request()).await?))
    }

    /// Whether a deny list has answered. The store is not asked then.
    #[inline]
    pub(super) fn is_denied(&self) -> bool {
        self.is_denied
    }

    /// The answer of the deny list.
    pub(super) fn denial(&self) -> Decision {
        Decision::denied_by_list(self.capacity())
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
        self.quota.parts().capacity
    }

    /// The time in which the limit's own quota fills.
    pub(super) fn window(&self) -> Option<Duration> {
        self.limit.window
    }
}

/// Whether a deny list denies a call, and the call's detour, for a limit that is not [plain](NamedLimit::is_plain).
fn denial_and_detour<'a>(
    call: &'a Call<'_>,
    limit: &'a NamedLimit,
    op: Op,
) -> Result<(bool, Option<Box<Detour<'a>>>), Error> {
    let normalized = limit.normalized(&call.key);
    let asks_to_pass = matches!(op, Op::Limit(_) | Op::Check(_) | Op::Reserve(_) | Op::Admit(_));
    let is_denied = asks_to_pass && limit.denies(&call.key, &normalized, &call.options);
    let detour = match limit.shards.is_empty() {
        true => limit.limit.normalize.map(|_| Detour { store_key: normalized, shard_quota: None }),
        false => {
            let shard = limit.shard_of(&normalized);
            let shard_quota = match call.options.quota {
                None => limit.shards[shard],
                Some(quota) => quota.split(limit.limit.shards)?[shard],
            };
            Some(Detour { store_key: Key::shard(shard as u32), shard_quota: Some(shard_quota) })
        }
    };
    Ok((is_denied, detour.map(Box::new)))
}

/// Why a limit refuses an operation that its quota does not support.
fn unsupported_op(quota: &Quota) -> &'static str {
    match quota.algorithm() {
        Algorithm::Concurrency => "it counts leases in flight: use `admit`, `renew` and `release`",
        _ => "it counts units, and has no leases: `admit`, `renew` and `release` are for `concurrency`",
    }
}
