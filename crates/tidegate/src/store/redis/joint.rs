//! Joint decisions: several keys, all or nothing.
//!
//! Keys in one slot are one script call. In a cluster, keys of several slots are refused or taken group by group; see
//! [`CrossSlot`].

use redis::Value;
use tidegate_core::{Decision, JointDecision, Op, Request, StoreError, Timestamp, step_all};

use super::arguments::{StepArguments, encode_time};
use super::batch::has_error_code;
use super::cluster::RETRY_PAUSES;
use super::reply::{self, Effect, JointReply};
use super::{Connection, RedisStore, decode_state, replacement_arguments, script};
use crate::store::codec::{
    JointRequest, MAX_REBASE_ATTEMPTS, RefundTimer, check_agreement, contended, refund_failed, unsupported,
};

/// How a cluster treats an all-or-nothing call whose keys are not in one slot; see [`Colocation`](crate::Colocation).
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
    /// Decides requests all or nothing, whichever slots their keys are in.
    pub(super) async fn decide_joint(
        &self,
        requests: &[Request<'_>],
        at: Option<Timestamp>,
    ) -> Result<JointDecision, StoreError> {
        let groups = self.group_by_slot(requests);
        match (groups.len(), self.cross_slot) {
            (0, _) => Ok(JointDecision::new(Vec::new())),
            (1, _) => self.decide_in_one_slot(&self.joint_request(requests)?, at).await,
            (_, CrossSlot::Refuse) => Err(unsupported(
                "all-or-nothing over keys that live on different nodes of the cluster: \
                 let them live together with RedisStoreBuilder::colocation, or allow RedisStoreBuilder::cross_slot(CrossSlot::Refund)",
            )),
            (_, CrossSlot::Refund) => self.decide_by_group(requests, &groups, at).await,
        }
    }

    fn joint_request<'a>(&self, requests: &[Request<'a>]) -> Result<JointRequest<'a, String>, StoreError> {
        JointRequest::new(requests, |request| self.key_names.state_name(request.scope, request.key))
    }

    /// The requests that one call can cover, by index.
    fn group_by_slot(&self, requests: &[Request<'_>]) -> Vec<Vec<usize>> {
        let mut groups: Vec<(String, Vec<usize>)> = Vec::new();
        for (index, request) in requests.iter().enumerate() {
            let slot_text =
                if C::IS_CLUSTER { self.key_names.slot_text(request.scope, request.key) } else { String::new() };
            match groups.iter_mut().find(|(known, _)| *known == slot_text) {
                Some((_, group)) => group.push(index),
                None => groups.push((slot_text, vec![index])),
            }
        }
        groups.into_iter().map(|(_, group)| group).collect()
    }

    /// Decides a joint request over keys of one slot, by one script call.
    async fn decide_in_one_slot(
        &self,
        joint: &JointRequest<'_, String>,
        at: Option<Timestamp>,
    ) -> Result<JointDecision, StoreError> {
        let names: Vec<&str> = joint.names.iter().map(|name| &**name).collect();
        let arguments: Vec<StepArguments> =
            joint.costs_by_key().map(|(quota, cost)| StepArguments::from_cost(quota, cost, self.min_ttl)).collect();
        let mut replacements: Vec<[Vec<u8>; 2]> = vec![Default::default(); names.len()];
        for _ in 0..MAX_REBASE_ATTEMPTS {
            let mut list = vec![encode_time(at)];
            for (StepArguments { quota, numbers }, [expected, instead]) in arguments.iter().zip(&replacements) {
                list.extend([quota, numbers, expected, instead].map(Vec::clone));
            }
            let JointReply { now, effect, values } = reply::parse_joint(self.run_joint_script(&names, &list).await?)?;
            let mut states = Vec::with_capacity(values.len());
            for (index, value) in values.into_iter().enumerate() {
                let quota = joint.quota(index);
                let state = decode_state(quota, &arguments[index].quota, value.as_deref(), now)?;
                if value.as_ref().is_some_and(|value| !value.ends_with(&arguments[index].quota)) {
                    replacements[index] = replacement_arguments(&arguments[index].quota, value, &state);
                }
                states.push(state);
            }
            if effect == Effect::OtherQuota {
                continue;
            }
            let decision = step_all(&joint.entries, &mut states, now);
            return check_agreement(decision.allowed(), effect == Effect::Written).map(|()| decision);
        }
        Err(contended())
    }

    /// Runs the script of joint decisions. While a slot moves, its keys are on two nodes at times: then it tries once more
    /// after a pause, a few times.
    async fn run_joint_script(&self, names: &[&str], arguments: &[Vec<u8>]) -> Result<Value, StoreError> {
        for pause in RETRY_PAUSES.into_iter().filter(|pause| !pause.is_zero()) {
            match self.run_script(&script::JOINT, names, arguments).await {
                Err(error) if has_error_code(&error, "TRYAGAIN") => tokio::time::sleep(pause).await,
                result => return result,
            }
        }
        self.run_script(&script::JOINT, names, arguments).await
    }

    /// Decides group after group, and refunds the groups before one that denies.
    async fn decide_by_group(
        &self,
        requests: &[Request<'_>],
        groups: &[Vec<usize>],
        at: Option<Timestamp>,
    ) -> Result<JointDecision, StoreError> {
        // All errors of the call itself are found before anything is taken.
        let joints: Vec<_> = groups
            .iter()
            .map(|group| self.joint_request(&group.iter().map(|index| requests[*index]).collect::<Vec<_>>()))
            .collect::<Result<_, _>>()?;
        let timer = RefundTimer::start(at);
        let mut decisions: Vec<Option<Decision>> = vec![None; requests.len()];
        for (number, (group, joint)) in groups.iter().zip(&joints).enumerate() {
            let taken = || indexed_decisions(&groups[..number], &decisions);
            let decision = match self.decide_in_one_slot(joint, at).await {
                Ok(decision) => decision,
                Err(error) => {
                    self.refund(requests, &taken(), timer, at).await?;
                    return Err(error);
                }
            };
            if !decision.allowed() {
                // It stays a denial even if a refund fails: an error would be admitted where the policy is open.
                let _ = self.refund(requests, &taken(), timer, at).await;
                self.check_others(requests, group, &mut decisions, at).await;
            }
            let allowed = decision.allowed();
            group
                .iter()
                .zip(decision.into_decisions())
                .for_each(|(index, decision)| decisions[*index] = Some(decision));
            if !allowed {
                break;
            }
        }
        Ok(JointDecision::new(decisions.into_iter().flatten().collect()))
    }

    /// Checks the keys outside of the group that denied, and reports their quotas.
    async fn check_others(
        &self,
        requests: &[Request<'_>],
        denied: &[usize],
        decisions: &mut [Option<Decision>],
        at: Option<Timestamp>,
    ) {
        for index in (0..requests.len()).filter(|index| !denied.contains(index)) {
            let Op::Limit(cost) = requests[index].op else { continue };
            let check = Request { op: Op::Check(cost), ..requests[index] };
            let unknown = || Decision::admitted_without_store(check.quota.parts().capacity);
            decisions[index] = Some(self.decide(&check, at).await.unwrap_or_else(|_| unknown()));
        }
    }

    /// Refunds the units that a call has taken since `timer` was started.
    async fn refund(
        &self,
        requests: &[Request<'_>],
        taken: &[(usize, Decision)],
        timer: RefundTimer,
        at: Option<Timestamp>,
    ) -> Result<(), StoreError> {
        let mut failed = None;
        for refund in timer.refunds(requests, taken) {
            failed = self.decide(&refund, at).await.err().or(failed);
        }
        failed.map_or(Ok(()), |error| Err(refund_failed(error)))
    }
}

/// The decisions of these groups, with their indices.
fn indexed_decisions(groups: &[Vec<usize>], decisions: &[Option<Decision>]) -> Vec<(usize, Decision)> {
    groups.iter().flatten().filter_map(|index| Some((*index, decisions[*index]?))).collect()
}
