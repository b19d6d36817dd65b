//! All or nothing over keys that live together: one script call.

use tidegate_core::{All, Entry, Op, Quota, Request, StoreError, Timestamp, step_all};

use super::answer::{self, Answers, Done};
use super::arguments::Arguments;
use super::keys::Names;
use super::{ATTEMPTS, Connection, RedisStore, agreed, carried_over, changing, given, script, state, unsupported};

impl<C: Connection> RedisStore<C> {
    /// Several keys that live together, all or nothing.
    pub(super) async fn decide_together(&self, asked: &Asked<'_>, at: Option<Timestamp>) -> Result<All, StoreError> {
        let names: Vec<&str> = asked.names.iter().map(|name| &**name).collect();
        let arguments: Vec<Arguments> =
            asked.sums().map(|(quota, cost)| Arguments::among(quota, cost, self.min_ttl)).collect();
        let mut carried: Vec<[Vec<u8>; 2]> = vec![Default::default(); names.len()];
        for _ in 0..ATTEMPTS {
            let mut list = vec![given(at)];
            for (Arguments { quota, numbers }, [expected, instead]) in arguments.iter().zip(&carried) {
                list.extend([quota, numbers, expected, instead].map(Vec::clone));
            }
            let Answers { now, done, values } = answer::all(self.run(&script::ALL, &names, &list).await?)?;
            let mut states = Vec::with_capacity(values.len());
            for (index, value) in values.into_iter().enumerate() {
                let quota = asked.quota(index);
                let state = state(quota, &arguments[index].quota, value.as_deref(), now)?;
                if value.as_ref().is_some_and(|value| !value.ends_with(&arguments[index].quota)) {
                    carried[index] = carried_over(&arguments[index].quota, value, &state);
                }
                states.push(state);
            }
            if done == Done::Foreign {
                continue;
            }
            let all = step_all(&asked.entries, &mut states, now);
            return agreed(all.allowed(), done == Done::Written).map(|()| all);
        }
        Err(changing())
    }
}

/// An all-or-nothing call with every key once.
pub(super) struct Asked<'a> {
    names: Vec<String>,
    entries: Vec<Entry<'a>>,
}

impl<'a> Asked<'a> {
    pub(super) fn new(names: &Names, requests: &[Request<'a>]) -> Result<Self, StoreError> {
        let mut asked = Asked { names: Vec::new(), entries: Vec::with_capacity(requests.len()) };
        for request in requests {
            let Op::Limit(cost) = request.op else {
                return Err(unsupported("all-or-nothing is for `limit` only"));
            };
            let name = names.name(request.scope, request.key);
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

    /// The quota of a key.
    fn quota(&self, state: usize) -> &'a Quota {
        self.entries.iter().find(|entry| entry.state == state).expect("a key was asked about").quota
    }

    /// What is asked of each key altogether.
    fn sums(&self) -> impl Iterator<Item = (&'a Quota, u64)> {
        (0..self.names.len()).map(|state| {
            let costs = self.entries.iter().filter(|entry| entry.state == state).map(|entry| entry.cost.get());
            (self.quota(state), costs.fold(0, u64::saturating_add))
        })
    }
}
