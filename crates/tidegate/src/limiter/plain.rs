//! A limit that is asked by the shortest way.

use std::time::Duration;

use tidegate_core::{Cost, Decision, Key, OnStoreError, Op, Request, StoreError};

use super::Limiter;
use super::any_store::AnyStore;
use super::limits::{Name, Named};

/// A limit that can be asked by the shortest way.
pub(crate) struct Plain<'a> {
    named: &'a Named,
    store: &'a AnyStore,
}

impl Limiter {
    /// A limit, if it can be asked by the shortest way: nothing about it is unusual, and nobody has replaced any.
    #[inline(always)]
    pub(crate) fn plain(&self, name: &Name) -> Option<Plain<'_>> {
        let named = self.inner.limits.first()?.find_known(name)?;
        named.is_plain().then_some(Plain { named, store: &self.inner.store })
    }
}

impl Plain<'_> {
    /// A `limit` of 1. None when the store has to be waited for; nothing was done then.
    #[inline(always)]
    pub(crate) fn limit(
        &self,
        key: &Key<'_>,
        on_store_error: Option<OnStoreError>,
    ) -> Option<Result<Decision, StoreError>> {
        let Named { scope, limit, number, .. } = self.named;
        let on_store_error = on_store_error.unwrap_or(limit.on_store_error);
        let op = Op::Limit(Cost::ONE);
        self.store.apply_now(&Request { scope, key, quota: &limit.quota, op, on_store_error }, Some(number))
    }

    /// In what time its quota is full when it is empty.
    #[inline]
    pub(crate) fn window(&self) -> Option<Duration> {
        self.named.window
    }
}
