//! An all-or-nothing call with every key once.

use tidegate_core::{Entry, Op, Quota, Request, StoreError};

use super::unsupported;

/// An all-or-nothing call with every key once, under its name in the store.
pub struct Asked<'a, N> {
    /// The names of the keys, each once.
    pub names: Vec<N>,
    /// What is asked of them, in order.
    pub entries: Vec<Entry<'a>>,
}

impl<'a, N: PartialEq> Asked<'a, N> {
    /// The call, or what is wrong with it: only `limit` can be asked all or nothing, and one key under one quota.
    pub fn new(requests: &[Request<'a>], name: impl Fn(&Request<'a>) -> N) -> Result<Self, StoreError> {
        let mut asked = Asked { names: Vec::new(), entries: Vec::with_capacity(requests.len()) };
        for request in requests {
            let Op::Limit(cost) = request.op else {
                return Err(unsupported("all-or-nothing is for `limit` only"));
            };
            if !request.quota.supports(request.op) {
                return Err(unsupported("all-or-nothing is not for leases"));
            }
            let name = name(request);
            let state = asked.names.iter().position(|known| *known == name).unwrap_or(asked.names.len());
            if state == asked.names.len() {
                asked.names.push(name);
            } else if asked.quota(state) != request.quota {
                return Err(unsupported("one key under two quotas in one all-or-nothing call"));
            }
            asked.entries.push(Entry { quota: request.quota, cost, state });
        }
        Ok(asked)
    }

    /// The quota of a key, by its number in `names`.
    pub fn quota(&self, state: usize) -> &'a Quota {
        self.entries.iter().find(|entry| entry.state == state).expect("a key was asked about").quota
    }

    /// What is asked of each key altogether.
    #[cfg(any(feature = "redis", feature = "postgres"))]
    pub(crate) fn sums(&self) -> impl Iterator<Item = (&'a Quota, u64)> {
        (0..self.names.len()).map(|state| {
            let costs = self.entries.iter().filter(|entry| entry.state == state).map(|entry| entry.cost.get());
            (self.quota(state), costs.fold(0, u64::saturating_add))
        })
    }
}
