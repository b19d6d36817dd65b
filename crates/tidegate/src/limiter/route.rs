//! From a limit and a key to the store and back: deny lists, normalisation, shards, shadow mode.

use std::borrow::Cow;
use std::sync::Arc;

use tidegate_core::{Algorithm, Decision, Key, Op, Quota, Request};

use super::decides::Decides;
use super::limits::Named;
use super::spread::{Spread, large_enough};
use super::terms::Terms;
use super::{Error, Inner, ShardBy};

/// One operation on one key of a limit.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) named: &'a Arc<Named>,
    pub(super) key: &'a Key<'a>,
    pub(super) terms: Terms<'a>,
    pub(super) op: Op,
}

/// Where an operation goes.
pub(super) enum Route<'a> {
    /// Nowhere: this is the answer.
    Answer(Decision),
    /// To one key of the store.
    One(Key<'a>, Cow<'a, Quota>),
    /// To several parts of the key's own budget.
    Spread(Spread<'a>),
}

impl<'a> Asked<'a> {
    /// The answer without waiting, when the store can give one.
    #[inline(always)]
    pub(super) fn now(self, inner: &Inner) -> Option<Result<Decision, Error>> {
        // The plain case first: nothing about this limit needs a second look.
        if self.named.is_plain() && self.is_plain() {
            let (quota, number) = match self.terms.quota {
                None => (&self.named.limit.quota, Some(&self.named.number)),
                Some(quota) => (quota, None),
            };
            return match inner.store.apply_now(&self.request(self.key, quota, self.op), number)? {
                Ok(decision) => Some(Ok(decision)),
                Err(error) => Some(Err(Error::Store(error))),
            };
        }
        let mut answer = None;
        // Another key and another whole: what is looked at from elsewhere has to be in memory, for the plain case as well.
        let Asked { named, key, terms, op } = self;
        Asked { named, key: &key.borrow(), terms, op }.now_by_route(inner, &mut answer);
        answer
    }

    /// Whether a plain limit takes this operation for sure, as is known when the usual call is compiled.
    #[inline(always)]
    fn is_plain(&self) -> bool {
        match self.terms.quota {
            None => !matches!(self.op, Op::Admit(_) | Op::Renew(_) | Op::Release(_)),
            Some(quota) => quota.takes(self.op),
        }
    }

    /// The rarer way, which writes its answer to a place of its own, so that the usual one need not be copied.
    #[inline(never)]
    fn now_by_route(self, inner: &Inner, answer: &mut Option<Result<Decision, Error>>) {
        *answer = self.route_now(inner);
    }

    fn route_now(self, inner: &Inner) -> Option<Result<Decision, Error>> {
        let answer = match self.route(inner) {
            Err(error) => return Some(Err(error)),
            Ok(Route::Answer(decision)) => Ok(decision),
            Ok(Route::One(key, quota)) => inner.store.apply_now(&self.request(&key, &quota, self.op), None)?,
            Ok(Route::Spread(spread)) => spread.now(self, &*inner.store)?,
        };
        Some(answer.map(|decision| self.finish(decision)).map_err(Error::Store))
    }

    /// The answer of `store`, waited for.
    pub(super) async fn ask<D: Decides + ?Sized>(self, inner: &Inner, store: &D) -> Result<Decision, Error> {
        let decision = match self.route(inner)? {
            Route::Answer(decision) => decision,
            Route::One(key, quota) => store.decide(&self.request(&key, &quota, self.op)).await?,
            Route::Spread(spread) => spread.ask(self, store).await?,
        };
        Ok(self.finish(decision))
    }

    pub(super) fn route(self, inner: &Inner) -> Result<Route<'a>, Error> {
        let limit = &self.named.limit;
        let quota = self.terms.quota.unwrap_or(&limit.quota);
        if !quota.takes(self.op) {
            return Err(Error::unsupported(self.named.name(), does_not_take(quota)));
        }
        let key = limit.normalize.map_or_else(|| self.key.borrow(), |normalize| normalize.apply(self.key));
        let asks_to_pass = matches!(self.op, Op::Limit(_) | Op::Check(_) | Op::Reserve(_) | Op::Admit(_));
        if asks_to_pass && self.named.denies(self.key, &key, &self.terms) {
            return Ok(Route::Answer(Decision::denied_by_list(self.capacity())));
        }
        if limit.shards == 1 {
            return Ok(Route::One(key, Cow::Borrowed(quota)));
        }
        let parts = match self.terms.quota {
            None => Cow::Borrowed(&*self.named.parts),
            Some(quota) => Cow::Owned(quota.split(limit.shards)?),
        };
        match limit.shard_by {
            ShardBy::Key => {
                let part = self.named.part_of(&key);
                let quota = match parts {
                    Cow::Borrowed(parts) => Cow::Borrowed(&parts[part]),
                    Cow::Owned(parts) => Cow::Owned(parts[part]),
                };
                Ok(Route::One(Key::shard(part as u32), quota))
            }
            ShardBy::Spread if matches!(self.op, Op::Reserve(_)) => {
                let why = "a reservation is not possible when the budget is spread over shards";
                Err(Error::unsupported(self.named.name(), why))
            }
            ShardBy::Spread if quota.algorithm() == Algorithm::Concurrency => Err(Error::unsupported(
                self.named.name(),
                "leases are not possible when the budget is spread over shards",
            )),
            ShardBy::Spread => {
                let two = inner.generator.two_of(large_enough(&parts, self.op));
                Ok(Route::Spread(Spread { key, parts, two, capacity: self.capacity() }))
            }
        }
    }

    #[inline(always)]
    pub(super) fn request<'b>(&'b self, key: &'b Key<'b>, quota: &'b Quota, op: Op) -> Request<'b> {
        let on_store_error = self.terms.on_store_error.unwrap_or(self.named.limit.on_store_error);
        Request { scope: &self.named.scope, key, quota, op, on_store_error }
    }

    pub(super) fn finish(self, decision: Decision) -> Decision {
        if self.named.limit.shadow { decision.shadowed() } else { decision }
    }

    pub(super) fn capacity(self) -> u32 {
        self.terms.quota.unwrap_or(&self.named.limit.quota).parts().capacity
    }
}

/// Why a limit refuses an operation that its quota does not have.
fn does_not_take(quota: &Quota) -> &'static str {
    match quota.algorithm() {
        Algorithm::Concurrency => "it counts leases in flight: use `admit`, `renew` and `release`",
        _ => "it counts units, and has no leases: `admit`, `renew` and `release` are for `concurrency`",
    }
}
