//! All or nothing over keys that do not live together.

use tidegate_core::{Decision, JointDecision, Op, Request, StoreError, Timestamp};

use super::{Connection, RedisStore};
use crate::store::stored::{Asked, Begun, not_given_back, unsupported};

/// What becomes of an all-or-nothing call in a cluster when its keys are not in one slot; see [`Colocation`](crate::Colocation).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CrossSlot {
    /// It is refused, and nothing is taken.
    #[default]
    Refuse,
    /// Group after group is taken, and given back when a later one denies: others may be denied meanwhile for what is
    /// given back later. What was taken stays taken when giving back fails, when something has come back by itself before
    /// it is given back, when a group was taken whose answer is lost, and when the call is dropped in the middle, as a
    /// timeout around the store does.
    Refund,
}

impl<C: Connection> RedisStore<C> {
    pub(super) async fn decide_all(
        &self,
        requests: &[Request<'_>],
        at: Option<Timestamp>,
    ) -> Result<JointDecision, StoreError> {
        let groups = self.groups(requests);
        match (groups.len(), self.cross_slot) {
            (0, _) => Ok(JointDecision::new(Vec::new())),
            (1, _) => self.decide_together(&self.asked(requests)?, at).await,
            (_, CrossSlot::Refuse) => Err(unsupported(
                "all-or-nothing over keys that live on different nodes of the cluster: \
                 let them live together (RedisStoreBuilder::together), or allow RedisStoreBuilder::apart(Apart::Refund)",
            )),
            (_, CrossSlot::Refund) => self.take_in_turn(requests, &groups, at).await,
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
    ) -> Result<JointDecision, StoreError> {
        // Everything that can be wrong with the call is found before anything is taken.
        let asked: Vec<_> = groups
            .iter()
            .map(|group| self.asked(&group.iter().map(|index| requests[*index]).collect::<Vec<_>>()))
            .collect::<Result<_, _>>()?;
        let begun = Begun::now(at);
        let mut decisions: Vec<Option<Decision>> = vec![None; requests.len()];
        for (number, (group, asked)) in groups.iter().zip(&asked).enumerate() {
            let taken = || indexed(&groups[..number], &decisions);
            let all = match self.decide_together(asked, at).await {
                Ok(all) => all,
                Err(error) => {
                    self.give_back(requests, &taken(), begun, at).await?;
                    return Err(error);
                }
            };
            if !all.allowed() {
                // It stays a denial, whatever becomes of the rest: an error would be admitted where the policy is open.
                let _ = self.give_back(requests, &taken(), begun, at).await;
                self.look_again(requests, group, &mut decisions, at).await;
            }
            let allowed = all.allowed();
            group.iter().zip(all.into_decisions()).for_each(|(index, decision)| decisions[*index] = Some(decision));
            if !allowed {
                break;
            }
        }
        Ok(JointDecision::new(decisions.into_iter().flatten().collect()))
    }

    /// Whoever did not deny reports what it has.
    async fn look_again(
        &self,
        requests: &[Request<'_>],
        denied: &[usize],
        decisions: &mut [Option<Decision>],
        at: Option<Timestamp>,
    ) {
        for index in (0..requests.len()).filter(|index| !denied.contains(index)) {
            let Op::Limit(cost) = requests[index].op else { continue };
            let look = Request { op: Op::Check(cost), ..requests[index] };
            let unknown = || Decision::admitted_without_store(look.quota.parts().capacity);
            decisions[index] = Some(self.decide(&look, at).await.unwrap_or_else(|_| unknown()));
        }
    }

    /// Gives back what a call has taken that has begun then.
    async fn give_back(
        &self,
        requests: &[Request<'_>],
        taken: &[(usize, Decision)],
        begun: Begun,
        at: Option<Timestamp>,
    ) -> Result<(), StoreError> {
        let mut failed = None;
        for back in begun.refunds(requests, taken) {
            failed = self.decide(&back, at).await.err().or(failed);
        }
        failed.map_or(Ok(()), |error| Err(not_given_back(error)))
    }
}

/// The decisions of these groups, with their numbers.
fn indexed(groups: &[Vec<usize>], decisions: &[Option<Decision>]) -> Vec<(usize, Decision)> {
    groups.iter().flatten().filter_map(|index| Some((*index, decisions[*index]?))).collect()
}
