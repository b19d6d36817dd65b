//! A question that an enforcer asks, where it stands.

use std::cell::Cell;
use std::time::Duration;

use tidegate_core::{Decision, Key};

use super::call::{Kind, checked_op, now_under, op_of};
use super::limits::{Name, Named};
use super::terms::Terms;
use super::{Call, Error, Limiter};

/// What a [`Call`] has, without the key in it: moving that costs as much as a decision.
#[derive(Clone, Copy)]
pub(crate) struct Question<'a> {
    pub(crate) limiter: &'a Limiter,
    pub(crate) name: &'a Name,
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
        let Question { name, key, cost, kind, terms, .. } = *self;
        let inner = &self.limiter.inner;
        let Some(limits) = inner.limits.first() else {
            let mut answer = None;
            self.now_replaced(window, &mut answer);
            return answer;
        };
        // Nobody has closed it, either.
        let unknown = || limits.unknown(name);
        let found = |named: &Named| window.set(named.window);
        now_under(limits.find_known(name), unknown, inner, key, terms, || op_of(cost, kind), found)
    }

    /// The rarer way, as [`Call::now`] has it: apart, so that what is done every time lies close together.
    #[inline(never)]
    fn now_replaced(&self, window: &Cell<Option<Duration>>, answer: &mut Option<Result<Decision, Error>>) {
        let Question { name, key, cost, kind, terms, .. } = *self;
        let inner = &self.limiter.inner;
        let found = |named: &Named| window.set(named.window);
        *answer = inner.limits.with(|limits| {
            let unknown = || limits.unknown(name);
            now_under(limits.find_known(name), unknown, inner, key, terms, || checked_op(inner, cost, kind), found)
        });
    }
}
