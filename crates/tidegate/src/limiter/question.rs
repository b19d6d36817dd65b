//! A question that an enforcer asks, where it stands.

use std::cell::Cell;
use std::time::Duration;

use tidegate_core::{Decision, Key, Op};

use super::call::{Kind, checked_op, op_of};
use super::limits::Limits;
use super::route::Asked;
use super::terms::Terms;
use super::{Call, Error, Limiter};

/// What a [`Call`] has, without the key in it: moving that costs as much as a decision.
#[derive(Clone, Copy)]
pub(crate) struct Question<'a> {
    pub(crate) limiter: &'a Limiter,
    pub(crate) name: &'a str,
    pub(crate) key: &'a Key<'a>,
    pub(crate) cost: u64,
    pub(crate) kind: Kind,
    pub(crate) terms: Terms<'a>,
}

impl<'a> Question<'a> {
    /// The same, to be waited for.
    pub(crate) fn call(&self) -> Call<'a> {
        let Question { limiter, name, key, cost, kind, terms } = *self;
        Call { inner: &limiter.inner, name, key: key.borrow(), cost, terms, kind }
    }

    /// [`Call::now`], which also leaves behind the window of the limit's quota.
    #[inline]
    pub(crate) fn now(&self, window: &Cell<Option<Duration>>) -> Option<Result<Decision, Error>> {
        let inner = &self.limiter.inner;
        match inner.limits.first() {
            // Nobody has closed it, either.
            Some(limits) => self.under(limits, op_of(self.cost, self.kind), window),
            None => inner.limits.with(|limits| self.under(limits, checked_op(inner, self.cost, self.kind), window)),
        }
    }

    #[inline(always)]
    fn under(
        &self,
        limits: &Limits,
        op: Result<Option<Op>, Error>,
        window: &Cell<Option<Duration>>,
    ) -> Option<Result<Decision, Error>> {
        let named = match limits.get(self.name) {
            Ok(named) => named,
            Err(error) => return Some(Err(error)),
        };
        window.set(named.window);
        match op {
            Ok(op) => Asked { named, key: self.key, terms: self.terms, op: op? }.now(&self.limiter.inner),
            Err(error) => Some(Err(error)),
        }
    }
}
