//! All or nothing, in one object and over several.

use futures_util::future::join_all;
use tidegate::api::apply::ApplyMode;
use tidegate::store::Request;
use tidegate::stored::{Asked, Begun, not_given_back};
use tidegate::{Decision, JointDecision, StoreError, StoreErrorKind, Timestamp};

use super::{Objects, Sharded};

/// What becomes of an all-or-nothing call whose keys live in different objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CrossShard {
    /// It is refused, and nothing is taken. Limits on one key live in one object, and are never refused for this.
    #[default]
    Refuse,
    /// All objects are looked at first, so that what is denied takes nothing. Then object after object is taken from, and
    /// given back to when a later one has changed its mind: others may be denied meanwhile for what is given back later.
    /// What was taken stays taken when giving back fails, when something has come back by itself before it is given back,
    /// when an object has taken whose answer is lost, and when the call is dropped in the middle, as a timeout does.
    Refund,
}

type Group = (u16, Vec<usize>);

impl<P: Objects> Sharded<P> {
    /// Takes all requests or nothing, at a time that a test may say.
    pub(crate) async fn decide_all(
        &self,
        requests: &[Request<'_>],
        at: Option<Timestamp>,
    ) -> Result<JointDecision, StoreError> {
        // Everything that can be wrong with the call is found before anything is asked.
        Asked::new(requests, |request| (request.scope.as_str().to_owned(), request.key.to_text().into_owned()))?;
        let groups = self.groups(requests);
        match (&*groups, self.cross_shard) {
            ([], _) => Ok(JointDecision::new(Vec::new())),
            ([group], _) => Ok(JointDecision::new(self.together("apply", group, requests, at).await?)),
            (_, CrossShard::Refuse) => Err(StoreError::new(
                StoreErrorKind::Unsupported,
                "all-or-nothing over keys that live in different objects: ask limits on one key, or allow Apart::Refund \
                 (TIDEGATE_APART=refund)",
            )),
            (groups, CrossShard::Refund) => self.take_in_turn(requests, groups, at).await,
        }
    }

    async fn take_in_turn(
        &self,
        requests: &[Request<'_>],
        groups: &[Group],
        at: Option<Timestamp>,
    ) -> Result<JointDecision, StoreError> {
        let begun = Begun::now(at);
        let mut decisions = self.look(requests, groups, at).await?;
        if decisions.iter().flatten().any(|decision| !decision.allowed()) {
            return Ok(JointDecision::new(decisions.into_iter().flatten().collect()));
        }
        let mut all_taken: Vec<(usize, Decision)> = Vec::new();
        for group in groups {
            let taken = match self.together("apply", group, requests, at).await {
                Ok(taken) => taken,
                Err(error) => {
                    self.give_back(requests, &all_taken, begun, at).await?;
                    return Err(error);
                }
            };
            let is_denied = taken.iter().any(|decision| !decision.allowed());
            let taken: Vec<_> = group.1.iter().copied().zip(taken).collect();
            if is_denied {
                // It stays a denial, whatever becomes of the rest: an error would be admitted where the policy is open.
                // The others report what they had when they were looked at.
                let _ = self.give_back(requests, &all_taken, begun, at).await;
                all_taken = taken;
                break;
            }
            all_taken.extend(taken);
        }
        for (index, decision) in all_taken {
            decisions[index] = Some(decision);
        }
        Ok(JointDecision::new(decisions.into_iter().flatten().collect()))
    }

    /// What all or nothing would come to in each of these objects, for the requests that live there.
    async fn look(
        &self,
        requests: &[Request<'_>],
        groups: &[Group],
        at: Option<Timestamp>,
    ) -> Result<Vec<Option<Decision>>, StoreError> {
        let looks = join_all(groups.iter().map(|group| self.together("look", group, requests, at))).await;
        let mut decisions = vec![None; requests.len()];
        for ((_, group), look) in groups.iter().zip(looks) {
            group.iter().zip(look?).for_each(|(index, decision)| decisions[*index] = Some(decision));
        }
        Ok(decisions)
    }

    /// Those requests that live in one object.
    async fn together(
        &self,
        what: &'static str,
        (shard, group): &Group,
        requests: &[Request<'_>],
        at: Option<Timestamp>,
    ) -> Result<Vec<Decision>, StoreError> {
        let share: Vec<_> = group.iter().map(|index| requests[*index]).collect();
        self.ask(*shard, what, ApplyMode::All, &share, at).await?.into_iter().collect()
    }

    /// Gives back what a call has taken that has begun then.
    async fn give_back(
        &self,
        requests: &[Request<'_>],
        taken: &[(usize, Decision)],
        begun: Begun,
        at: Option<Timestamp>,
    ) -> Result<(), StoreError> {
        let back = begun.refunds(requests, taken);
        let failed = self.decide_each(&back, at).await.into_iter().find_map(Result::err);
        failed.map_or(Ok(()), |error| Err(not_given_back(error)))
    }
}
