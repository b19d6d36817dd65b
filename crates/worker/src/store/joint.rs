//! All-or-nothing calls, in one object and over several.

use futures_util::future::join_all;
use tidegate::api::apply::ApplyMode;
use tidegate::store::Request;
use tidegate::stored::{JointRequest, RefundTimer, refund_failed};
use tidegate::{Decision, JointDecision, StoreError, StoreErrorKind, Timestamp};

use super::{ObjectClient, ShardedStore};

/// The handling of an all-or-nothing call whose keys live in different objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CrossShard {
    /// Refuses the call and takes nothing. Limits on one key live in one object, so calls on one key are never refused.
    #[default]
    Refuse,
    /// Checks all objects first, so that a denied call takes nothing. Then it takes from object after object, and
    /// refunds them when a later one denies after all. Other calls may be denied meanwhile for units that are refunded
    /// later.
    ///
    /// Units stay taken when the refund fails, and when some have been replenished before it. They also stay taken when
    /// the response of an object is lost, and when the call is dropped half way, as by a timeout.
    Refund,
}

/// The index of an object and the indices of the requests that live there.
type ShardGroup = (u16, Vec<usize>);

impl<P: ObjectClient> ShardedStore<P> {
    /// Decides all requests or nothing, now or at the time of a test.
    pub(crate) async fn decide_all(
        &self,
        requests: &[Request<'_>],
        at: Option<Timestamp>,
    ) -> Result<JointDecision, StoreError> {
        // The call is validated before any message is sent.
        JointRequest::new(requests, |request| (request.scope.as_str().to_owned(), request.key.to_text().into_owned()))?;
        let groups = self.group_by_shard(requests);
        match (&*groups, self.cross_shard) {
            ([], _) => Ok(JointDecision::new(Vec::new())),
            ([group], _) => Ok(JointDecision::new(self.send_group("apply", group, requests, at).await?)),
            (_, CrossShard::Refuse) => Err(StoreError::new(
                StoreErrorKind::Unsupported,
                "all-or-nothing over keys that live in different objects: ask limits on one key, or allow CrossShard::Refund \
                 (TIDEGATE_APART=refund)",
            )),
            (groups, CrossShard::Refund) => self.take_in_order(requests, groups, at).await,
        }
    }

    async fn take_in_order(
        &self,
        requests: &[Request<'_>],
        groups: &[ShardGroup],
        at: Option<Timestamp>,
    ) -> Result<JointDecision, StoreError> {
        let timer = RefundTimer::start(at);
        let mut decisions = self.check_all(requests, groups, at).await?;
        if decisions.iter().flatten().any(|decision| !decision.allowed()) {
            return Ok(JointDecision::new(decisions.into_iter().flatten().collect()));
        }
        let mut all_taken: Vec<(usize, Decision)> = Vec::new();
        for group in groups {
            let taken = match self.send_group("apply", group, requests, at).await {
                Ok(taken) => taken,
                Err(error) => {
                    self.refund(requests, &all_taken, timer, at).await?;
                    return Err(error);
                }
            };
            let is_denied = taken.iter().any(|decision| !decision.allowed());
            let taken: Vec<_> = group.1.iter().copied().zip(taken).collect();
            if is_denied {
                // The call stays a denial even if the refund fails. An error would be admitted if the policy is open.
                // The other objects report their checks.
                let _ = self.refund(requests, &all_taken, timer, at).await;
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

    /// Checks the requests of every object without taking anything.
    async fn check_all(
        &self,
        requests: &[Request<'_>],
        groups: &[ShardGroup],
        at: Option<Timestamp>,
    ) -> Result<Vec<Option<Decision>>, StoreError> {
        let checks = join_all(groups.iter().map(|group| self.send_group("look", group, requests, at))).await;
        let mut decisions = vec![None; requests.len()];
        for ((_, group), check) in groups.iter().zip(checks) {
            group.iter().zip(check?).for_each(|(index, decision)| decisions[*index] = Some(decision));
        }
        Ok(decisions)
    }

    /// Sends the requests of one group to their object, all or nothing.
    async fn send_group(
        &self,
        path: &'static str,
        (shard, group): &ShardGroup,
        requests: &[Request<'_>],
        at: Option<Timestamp>,
    ) -> Result<Vec<Decision>, StoreError> {
        let share: Vec<_> = group.iter().map(|index| requests[*index]).collect();
        self.send(*shard, path, ApplyMode::All, &share, at).await?.into_iter().collect()
    }

    /// Refunds the units that a call has taken since the start of `timer`.
    async fn refund(
        &self,
        requests: &[Request<'_>],
        taken: &[(usize, Decision)],
        timer: RefundTimer,
        at: Option<Timestamp>,
    ) -> Result<(), StoreError> {
        let refunds = timer.refunds(requests, taken);
        let failed = self.decide_each(&refunds, at).await.into_iter().find_map(Result::err);
        failed.map_or(Ok(()), |error| Err(refund_failed(error)))
    }
}
