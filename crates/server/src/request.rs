//! `DecisionRequest`: a decoded request of any protocol, ready for the limiter.

use tidegate::api::Op;
use tidegate::{Call, Decision, JointDecision, Key, Limiter, Quota};

/// A request for one decision about one key, as every door makes it of its wire format.
#[derive(Debug, Clone)]
pub(crate) struct DecisionRequest<'a> {
    pub(crate) op: Op,
    pub(crate) limit: &'a str,
    pub(crate) key: Key<'a>,
    pub(crate) cost: u64,
    /// The quota, if the request carries its own.
    pub(crate) quota: Option<Quota>,
    /// The key that deny lists are matched against, where `key` is only a part of it.
    pub(crate) whole_key: Option<&'a Key<'a>>,
}

impl<'a> DecisionRequest<'a> {
    /// Creates a request of cost 1 for a limit of the config.
    pub(crate) fn new(op: Op, limit: &'a str, key: Key<'a>) -> Self {
        DecisionRequest { op, limit, key, cost: 1, quota: None, whole_key: None }
    }

    #[must_use]
    pub(crate) fn with_cost(mut self, cost: u64) -> Self {
        self.cost = cost;
        self
    }

    /// Makes the call to a limiter.
    #[inline]
    pub(crate) fn call(&'a self, limiter: &'a Limiter) -> Call<'a> {
        let (name, key) = (self.limit, self.key.borrow());
        let call = match self.op {
            Op::Limit => limiter.limit(name, key),
            Op::Check => limiter.check(name, key),
            Op::Reserve => limiter.reserve(name, key),
            Op::Refund => limiter.refund(name, key),
            Op::Reset => limiter.reset(name, key),
            Op::Admit(lease) => limiter.admit(name, key).lease(lease).into(),
            Op::Renew(lease) => limiter.renew(name, key, lease),
            Op::Release(lease) => limiter.release(name, key, lease),
        };
        let call = call.cost(self.cost);
        let call = match self.whole_key {
            Some(key) => call.whole_key(key),
            None => call,
        };
        match &self.quota {
            Some(quota) => call.with_quota(quota),
            None => call,
        }
    }
}

/// Returns the requests of a joint decision that count: all of them if it was allowed, else those that denied it. The
/// others took nothing.
pub(crate) fn decisive<'a, 'b>(
    requests: &'a [DecisionRequest<'b>],
    joint: &'a JointDecision,
) -> impl Iterator<Item = (&'a DecisionRequest<'b>, &'a Decision)> {
    requests.iter().zip(joint.decisions()).filter(|(_, decision)| joint.allowed() || !decision.allowed())
}
