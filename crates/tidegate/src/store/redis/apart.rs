//! All or nothing over keys that do not live together.

use tidegate_core::{All, Decision, Op, Request, StoreError, StoreErrorKind, Timestamp};

use super::{Connection, RedisStore};
use crate::store::stored::{Asked, unsupported};

/// What becomes of an all-or-nothing call in a cluster when its keys do not live [`Together`](crate::Together).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Apart {
    /// It is refused, and nothing is taken.
    #[default]
    Refuse,
    /// Group after group is taken, and given back when a later one denies: others may be denied meanwhile for what is
    /// given back later. What was taken stays taken when giving back fails, which the error says, and when the call is
    /// dropped in the middle, as a timeout around the store does.
    Refund,
}

impl<C: Connection> RedisStore<C> {
    pub(super) async fn decide_all(&self, requests: &[Request<'_>], at: Option<Timestamp>) -> Result<All, StoreError> {
        let groups = self.groups(requests);
        match (groups.len(), self.apart) {
            (0, _) => Ok(All::new(Vec::new())),
            (1, _) => self.decide_together(&self.asked(requests)?, at).await,
            (_, Apart::Refuse) => Err(unsupported(
                "all-or-nothing over keys that live on different nodes of the cluster: \
                 let them live together (RedisStoreBuilder::together), or allow RedisStoreBuilder::apart(Apart::Refund)",
            )),
            (_, Apart::Refund) => self.take_in_turn(requests, &groups, at).await,
        }
    }

    fn asked<'a>(&self, requests: &[Request<'a>]) -> Result<Asked<'a, String>, StoreError> {
        Asked::new(requests, |request| self.names.name(request.scope, request.key))
    }

    /// Which requests can be taken in one call, by number.
    fn groups(&self, requests: &[Request<'_>]) -> Vec<Vec<usize>> {
        let mut groups: Vec<(String, Vec<usize>)> = Vec::new();
        for (index, request) in requests.iter().enumerate() {
            let place = if C::CLUSTER { self.names.place(request.scope, request.key) } else { String::new() };
            match groups.iter_mut().find(|(known, _)| *known == place) {
                Some((_, group)) => group.push(index),
                None => groups.push((place, vec![index])),
            }
        }
        groups.into_iter().map(|(_, group)| group).collect()
    }

    async fn take_in_turn(
        &self,
        requests: &[Request<'_>],
        groups: &[Vec<usize>],
        at: Option<Timestamp>,
    ) -> Result<All, StoreError> {
        // Everything that can be wrong with the call is found before anything is taken.
        let asked: Vec<_> = groups
            .iter()
            .map(|group| self.asked(&group.iter().map(|index| requests[*index]).collect::<Vec<_>>()))
            .collect::<Result<_, _>>()?;
        let mut decisions: Vec<Option<Decision>> = vec![None; requests.len()];
        let mut denied = None;
        for (number, (group, asked)) in groups.iter().zip(&asked).enumerate() {
            let all = match self.decide_together(asked, at).await {
                Ok(all) => all,
                Err(error) => {
                    self.give_back(requests, &groups[..number], at).await?;
                    return Err(error);
                }
            };
            let allowed = all.allowed();
            for (index, decision) in group.iter().zip(all.into_decisions()) {
                decisions[*index] = Some(decision);
            }
            if !allowed {
                denied = Some(number);
                break;
            }
        }
        if let Some(number) = denied {
            self.give_back(requests, &groups[..number], at).await?;
            // Whoever did not deny reports what it has. A look that fails does not make the denial an error.
            for index in groups.iter().enumerate().filter(|(group, _)| *group != number).flat_map(|(_, group)| group) {
                let Op::Limit(cost) = requests[*index].op else { continue };
                let look = Request { op: Op::Check(cost), ..requests[*index] };
                let unknown = || Decision::admitted_without_store(look.quota.parts().capacity);
                decisions[*index] = Some(self.decide(&look, at).await.unwrap_or_else(|_| unknown()));
            }
        }
        Ok(All::new(decisions.into_iter().flatten().collect()))
    }

    async fn give_back(
        &self,
        requests: &[Request<'_>],
        groups: &[Vec<usize>],
        at: Option<Timestamp>,
    ) -> Result<(), StoreError> {
        let mut failed = None;
        for index in groups.iter().flatten() {
            let Op::Limit(cost) = requests[*index].op else { continue };
            let back = Request { op: Op::Refund(cost), ..requests[*index] };
            failed = self.decide(&back, at).await.err().or(failed);
        }
        if let Some(error) = failed {
            let what = "redis: the call was not granted, and not all that it had taken could be given back";
            return Err(StoreError::caused_by(StoreErrorKind::Unavailable, what, error));
        }
        Ok(())
    }
}
