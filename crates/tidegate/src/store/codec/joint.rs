//! `JointRequest`: an all-or-nothing call with every key listed once, as stores evaluate it.

use tidegate_core::{JointEntry, Op, Quota, Request, StoreError};

use super::unsupported;

/// An all-or-nothing call that lists every key once, under its name in the store.
pub struct JointRequest<'a, N> {
    /// The names of the keys, without repetition.
    pub names: Vec<N>,
    /// The costs that the call takes, in the order of its requests.
    pub entries: Vec<JointEntry<'a>>,
}

impl<'a, N: PartialEq> JointRequest<'a, N> {
    /// Builds the call. Fails unless every operation is a `limit` and every key has one quota.
    pub fn new(requests: &[Request<'a>], name: impl Fn(&Request<'a>) -> N) -> Result<Self, StoreError> {
        let mut joint = JointRequest { names: Vec::new(), entries: Vec::with_capacity(requests.len()) };
        for request in requests {
            let Op::Limit(cost) = request.op else {
                return Err(unsupported("all-or-nothing is for `limit` only"));
            };
            if !request.quota.supports(request.op) {
                return Err(unsupported("all-or-nothing is not for leases"));
            }
            let name = name(request);
            let state = joint.names.iter().position(|known| *known == name).unwrap_or(joint.names.len());
            if state == joint.names.len() {
                joint.names.push(name);
            } else if joint.quota(state) != request.quota {
                return Err(unsupported("one key under two quotas in one all-or-nothing call"));
            }
            joint.entries.push(JointEntry { quota: request.quota, cost, state });
        }
        Ok(joint)
    }

    /// Returns the quota of a key by its index in `names`.
    pub fn quota(&self, state: usize) -> &'a Quota {
        self.entries.iter().find(|entry| entry.state == state).expect("every name has an entry").quota
    }

    /// Returns the quota and the total cost of each key.
    #[cfg(any(feature = "redis", feature = "postgres"))]
    pub(crate) fn costs_by_key(&self) -> impl Iterator<Item = (&'a Quota, u64)> {
        (0..self.names.len()).map(|state| {
            let costs = self.entries.iter().filter(|entry| entry.state == state).map(|entry| entry.cost.get());
            (self.quota(state), costs.fold(0, u64::saturating_add))
        })
    }
}
