//! A key's own budget, cut into parts: the power of two choices.

use std::borrow::Cow;

use tidegate_core::{Cost, Decision, DynStore, Key, Op, Quota, Reason, Store, StoreError};

use super::decides::Decides;
use super::route::Asked;
use crate::random::Random;

/// The parts of one key's budget.
pub(super) struct Spread<'a> {
    pub(super) key: Key<'a>,
    pub(super) parts: Cow<'a, [Quota]>,
    /// The two parts that are looked at before one is asked.
    pub(super) two: [u32; 2],
    /// The capacity of the whole.
    pub(super) capacity: u32,
}

impl Spread<'_> {
    /// A `limit` without waiting; none for anything else.
    pub(super) fn now(&self, asked: Asked<'_>, store: &dyn DynStore) -> Option<Result<Decision, StoreError>> {
        let Op::Limit(cost) = asked.op else { return None };
        let apply = |part: u32, op| {
            let key = self.key.with_shard(part);
            store.apply_now(&asked.request(&key, &self.parts[part as usize], op))
        };
        let [first, second] = match self.two.map(|part| apply(part, Op::Check(cost))) {
            [Some(Ok(first)), Some(Ok(second))] => [first, second],
            [Some(Err(error)), _] | [_, Some(Err(error))] => return Some(Err(error)),
            _ => return None,
        };
        let (part, look) = self.fuller([first, second]);
        if is_without_store(&look) {
            return Some(Ok(self.of_whole(look)));
        }
        Some(apply(part, asked.op)?.map(|decision| self.of_whole(decision)))
    }

    /// The part a `limit` should be asked of, and what it has.
    pub(super) async fn choose<D: Decides + ?Sized>(
        &self,
        asked: Asked<'_>,
        store: &D,
    ) -> Result<(u32, Decision), StoreError> {
        let Op::Limit(cost) = asked.op else { unreachable!("a part is chosen for a `limit` only") };
        let looks = self.each(asked, store, &self.two, Op::Check(cost)).await?;
        Ok(self.fuller([looks[0], looks[1]]))
    }

    /// Any operation.
    pub(super) async fn ask<D: Decides + ?Sized>(&self, asked: Asked<'_>, store: &D) -> Result<Decision, StoreError> {
        let every: Vec<u32> = (0..self.parts.len() as u32).collect();
        match asked.op {
            Op::Limit(_) => {
                let (part, look) = self.choose(asked, store).await?;
                if is_without_store(&look) {
                    return Ok(self.of_whole(look));
                }
                let (key, quota) = (self.key.with_shard(part), &self.parts[part as usize]);
                Ok(self.of_whole(store.decide(&asked.request(&key, quota, asked.op)).await?))
            }
            Op::Refund(_) => {
                let looks = self.each(asked, store, &every, Op::Check(Cost::ONE)).await?;
                // Into the emptiest part, where the least of it is lost to the part's capacity.
                let known = every.iter().zip(&looks).filter(|(_, look)| !is_without_store(look));
                let Some((part, _)) = known.min_by_key(|(_, look)| look.remaining()) else {
                    return Ok(self.of_whole(looks[0]));
                };
                let given = self.each(asked, store, &[*part], asked.op).await?;
                Ok(self.of_whole(given[0]))
            }
            op => Ok(self.sum(&self.each(asked, store, &every, op).await?)),
        }
    }

    async fn each<D: Decides + ?Sized>(
        &self,
        asked: Asked<'_>,
        store: &D,
        parts: &[u32],
        op: Op,
    ) -> Result<Vec<Decision>, StoreError> {
        let keys: Vec<_> = parts.iter().map(|part| self.key.with_shard(*part)).collect();
        let numbered = parts.iter().zip(&keys);
        let requests: Vec<_> =
            numbered.map(|(part, key)| asked.request(key, &self.parts[*part as usize], op)).collect();
        store.decide_each(&requests).await.into_iter().collect()
    }

    /// The fuller of the two parts, by a look at each, and that look.
    pub(super) fn fuller(&self, [first, second]: [Decision; 2]) -> (u32, Decision) {
        // One that admits it wins over one that does not, however much that has.
        let fullness = |look: Decision| (look.allowed(), look.remaining());
        if fullness(second) > fullness(first) { (self.two[1], second) } else { (self.two[0], first) }
    }

    /// A part's answer, with the capacity of the whole.
    pub(super) fn of_whole(&self, decision: Decision) -> Decision {
        with_limit(decision, self.capacity)
    }

    /// The answers of all parts as one: allowed if any of them is.
    fn sum(&self, parts: &[Decision]) -> Decision {
        // The one that allows it, or else will soonest; one that never will comes last.
        let best = parts.iter().max_by_key(|part| (part.allowed(), part.retry_after().map(std::cmp::Reverse)));
        let mut whole = best.map_or_else(|| Decision::denied_by_list(0), |best| *best).into_parts();
        whole.limit = self.capacity;
        whole.remaining = parts.iter().map(|part| part.remaining() as u32).sum();
        whole.next_after = parts.iter().filter_map(|part| part.into_parts().next_after).min();
        whole.reset_after = parts.iter().map(|part| part.into_parts().reset_after).max().unwrap_or(0);
        whole.into()
    }
}

/// Whether a look was answered by the limit's policy. Then that is the answer: to ask a broken store again would only make
/// the caller wait again.
fn is_without_store(look: &Decision) -> bool {
    look.reason() == Some(Reason::Store)
}

/// How many of the parts, which begin with the largest, could ever serve this operation; all when none could.
pub(super) fn large_enough(parts: &[Quota], op: Op) -> u32 {
    let cost = match op {
        Op::Limit(cost) => cost.get(),
        _ => 1,
    };
    match parts.partition_point(|part| u64::from(part.parts().capacity) >= cost) {
        0 => parts.len() as u32,
        some => some as u32,
    }
}

/// A decision about a part, with the capacity of the whole.
pub(super) fn with_limit(decision: Decision, limit: u32) -> Decision {
    let mut parts = decision.into_parts();
    parts.limit = limit;
    parts.into()
}

/// Picks parts; the same seed picks the same ones in the same order.
pub(super) struct Generator(Random);

impl Generator {
    pub(super) fn new(seed: u64) -> Self {
        Generator(Random::new(seed))
    }

    /// Two different parts of `parts`; the same one twice when there is only one.
    pub(super) fn two_of(&self, parts: u32) -> [u32; 2] {
        if parts == 1 {
            return [0; 2];
        }
        let bits = self.0.next();
        let below = |bits: u32, range: u32| ((u64::from(bits) * u64::from(range)) >> 32) as u32;
        let first = below(bits as u32, parts);
        let step = 1 + below((bits >> 32) as u32, parts - 1);
        [first, (first + step) % parts]
    }
}
