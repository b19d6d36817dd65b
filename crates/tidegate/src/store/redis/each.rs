//! Several keys that live together, each on its own: one script call.

use std::error::Error;
use std::sync::atomic::Ordering;

use redis::RedisError;
use tidegate_core::{Algorithm, Decision, Op, Request, StoreError};

use super::answer::{self, Answer};
use super::ask::Ask;
use super::{Connection, RedisStore, given, script};
use crate::store::stored::each;

/// How many operations one call is about at most: more would save little, and the server answers nobody else meanwhile.
pub(super) const MOST: usize = 64;

impl<C: Connection> RedisStore<C> {
    /// What was found about each of these, at one time and in order; none where a call about that key alone has to say,
    /// because something is wrong with it, or because one before it about the same key has to be asked again. Nothing was
    /// done to those.
    pub(super) async fn ask_each(&self, asks: &[&Ask]) -> Result<Vec<Option<Answer>>, StoreError> {
        let mut kinds: Vec<[&Vec<u8>; 2]> = Vec::new();
        let mut which = Vec::with_capacity(asks.len());
        for ask in asks {
            let kind = [&ask.quota, &ask.numbers];
            let known = kinds.iter().position(|known| *known == kind).unwrap_or_else(|| {
                kinds.push(kind);
                kinds.len() - 1
            });
            which.push(known as u8 + 1);
        }
        let mut list = vec![given(asks.first().and_then(|ask| ask.at)), which];
        list.extend(kinds.into_iter().flatten().cloned());
        let names: Vec<&str> = asks.iter().map(|ask| &*ask.name).collect();
        match self.run(&script::EACH, &names, &list).await {
            Ok(answer) => answer::each(answer, asks.len()),
            // Nothing was run, and it may be about one of the keys only.
            Err(error) if has_code(&error, "NOPERM") => Ok(vec![None; asks.len()]),
            // A node of a cluster, asked as if it were alone.
            Err(error) if has_code(&error, "CROSSSLOT") => {
                self.has_slots.store(true, Ordering::Relaxed);
                Ok(vec![None; asks.len()])
            }
            Err(error) => Err(error),
        }
    }

    /// Requests that can be asked in one call after the other, of many keys each.
    fn asks(&self, requests: &[Request<'_>]) -> Option<Vec<Ask>> {
        let is_state = |request: &Request<'_>| {
            request.quota.algorithm() != Algorithm::Concurrency && !matches!(request.op, Op::Reset)
        };
        if self.lanes.is_none() || requests.len() < 2 || !requests.iter().all(is_state) {
            return None;
        }
        let asks: Vec<Ask> = requests.iter().map(|request| self.ask(request, None)).collect();
        let is_together = asks.iter().all(|ask| !ask.is_heavy && self.slot(ask) == self.slot(&asks[0]));
        is_together.then_some(asks)
    }

    /// Every request on its own, in order: in as few calls as can be where the keys live together.
    pub(super) async fn decide_each(&self, requests: &[Request<'_>]) -> Vec<Result<Decision, StoreError>> {
        let Some(asks) = self.asks(requests) else {
            return each(requests, |index| self.decide(&requests[index], None)).await;
        };
        let mut decisions = Vec::with_capacity(asks.len());
        for (requests, asks) in requests.chunks(MOST).zip(asks.chunks(MOST)) {
            let found = match self.ask_each(&asks.iter().collect::<Vec<_>>()).await {
                Ok(answers) => answers.into_iter().map(Ok).collect(),
                Err(error) => vec![Err(error); asks.len()],
            };
            let settled = |index: usize| {
                let (request, ask, found) = (&requests[index], &asks[index], found[index].clone());
                async move { self.settle(request, ask, found?).await }
            };
            decisions.extend(each(requests, settled).await);
        }
        decisions
    }
}

/// Whether that is what the server says.
fn has_code(error: &StoreError, code: &str) -> bool {
    let redis = error.source().and_then(|source| source.downcast_ref::<RedisError>());
    redis.is_some_and(|error| error.code() == Some(code))
}
