//! The dispatch of a call to the store: deny lists, normalization, shards, shadow mode.
//!
//! Every decision of a limiter goes through [`Dispatch`]: immediate and awaited calls, batches, enforcers,
//! transactions. No shortcut bypasses it. The memory store has one of its own, for token buckets.
//!
//! The `inline(always)` functions here are measured as a set; see record 0032.

use std::time::Duration;

use tidegate_core::{Algorithm, Decision, Key, OnStoreError, Op, Quota, Request};

use super::Error;
use super::call::Call;
use super::registry::NamedLimit;
use crate::store::Decider;

/// One operation of a call on its limit, ready for the store. Its few plain fields can stay in registers.
pub(super) struct Dispatch<'a> {
    limit: &'a NamedLimit,
    key: &'a Key<'a>,
    /// The quota that decides: the limit's or the call's.
    quota: &'a Quota,
    pub(super) op: Op,
    on_store_error: OnStoreError,
    /// Whether a deny list denies the call. The store is not called then.
    is_denied: bool,
    target: Option<Box<StoreTarget<'a>>>,
}

/// The key and quota in the store, if normalization or shards change them.
struct StoreTarget<'a> {
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
        let (is_denied, target) = match limit.is_plain {
            true => (false, None),
            false => resolve_target(call, limit, op)?,
        };
        // Shadow mode never denies, even when the store is broken. An operation that cannot be denied returns the
        // error.
        let policy = match limit.limit.shadow && may_deny(op) {
            true => OnStoreError::Open,
            false => limit.limit.on_store_error,
        };
        let on_store_error = call.options.on_store_error.unwrap_or(policy);
        Ok(Dispatch { limit, key: &call.key, quota, op, on_store_error, is_denied, target })
    }

    /// Returns the request to the store.
    #[inline]
    pub(super) fn request(&self) -> Request<'_> {
        self.request_for(self.op)
    }

    /// Returns the request for another operation than the call's.
    #[inline(always)] // record 0032 has the measurement
    pub(super) fn request_for(&self, op: Op) -> Request<'_> {
        let (mut key, mut quota) = (self.key, self.quota);
        if let Some(target) = &self.target {
            key = &target.store_key;
            quota = target.shard_quota.as_ref().unwrap_or(quota);
        }
        Request { scope: &self.limit.scope, key, quota, op, on_store_error: self.on_store_error }
    }

    /// Decides by `decider`.
    pub(super) async fn decide<D: Decider + ?Sized>(&self, decider: &D) -> Result<Decision, Error> {
        if self.is_denied() {
            return Ok(self.finish(self.denial()));
        }
        Ok(self.finish(decider.decide(&self.request()).await?))
    }

    /// Returns whether a deny list denies the call. The store is not called then.
    #[inline]
    pub(super) fn is_denied(&self) -> bool {
        self.is_denied
    }

    /// Returns the denial by the deny list.
    pub(super) fn denial(&self) -> Decision {
        Decision::denied_by_list(self.capacity())
    }

    /// Returns the decision for the caller. In shadow mode a denial becomes a permission that keeps its reason.
    #[inline(always)] // record 0032 has the measurement
    pub(super) fn finish(&self, decision: Decision) -> Decision {
        if self.limit.limit.shadow { decision.shadowed() } else { decision }
    }

    /// Counts the answer to `call`.
    #[inline]
    pub(super) fn count(&self, call: &Call<'_>, answer: Result<&Decision, &Error>) {
        call.count(self.limit, answer);
    }

    pub(super) fn is_shadow(&self) -> bool {
        self.limit.limit.shadow
    }

    /// Returns the capacity of the whole quota, over all shards.
    pub(super) fn capacity(&self) -> u32 {
        self.quota.parts().capacity
    }

    /// Returns the time in which the limit's own quota fills.
    pub(super) fn window(&self) -> Option<Duration> {
        self.limit.window
    }
}

/// Returns whether a deny list denies a call, and the call's target, for a limit that is not [plain](NamedLimit::is_plain).
fn resolve_target<'a>(
    call: &'a Call<'_>,
    limit: &'a NamedLimit,
    op: Op,
) -> Result<(bool, Option<Box<StoreTarget<'a>>>), Error> {
    let normalized = limit.normalized(&call.key);
    let is_denied = may_deny(op) && limit.denies(&call.key, &normalized, &call.options);
    let target = match limit.shards.is_empty() {
        true => limit.limit.normalize.map(|_| StoreTarget { store_key: normalized, shard_quota: None }),
        false => {
            let shard = limit.shard_of(&normalized);
            let shard_quota = match call.options.quota {
                None => limit.shards[shard],
                Some(quota) => quota.split(limit.limit.shards)?[shard],
            };
            Some(StoreTarget { store_key: Key::shard(shard as u32), shard_quota: Some(shard_quota) })
        }
    };
    Ok((is_denied, target.map(Box::new)))
}

/// Returns whether a limit can deny an operation.
fn may_deny(op: Op) -> bool {
    matches!(op, Op::Limit(_) | Op::Check(_) | Op::Reserve(_) | Op::Admit(_))
}

/// Why a limit refuses an operation that its quota does not support.
fn unsupported_op(quota: &Quota) -> &'static str {
    match quota.algorithm() {
        Algorithm::Concurrency => "it counts leases in flight: use `admit`, `renew` and `release`",
        _ => "it counts units, and has no leases: `admit`, `renew` and `release` are for `concurrency`",
    }
}
