//! All or nothing over keys that live together: one script call.

use tidegate_core::{JointDecision, StoreError, Timestamp, step_all};

use super::answer::{self, Answers, Done};
use super::arguments::Arguments;
use super::{Connection, RedisStore, carried_over, given, script, state};
use crate::store::stored::{ATTEMPTS, Asked, agreed, changing};

impl<C: Connection> RedisStore<C> {
    /// Several keys that live together, all or nothing.
    pub(super) async fn decide_together(
        &self,
        asked: &Asked<'_, String>,
        at: Option<Timestamp>,
    ) -> Result<JointDecision, StoreError> {
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
