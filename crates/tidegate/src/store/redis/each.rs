//! Many requests at once, each on its own.

use std::collections::HashMap;

use futures_util::future::join_all;
use tidegate_core::{Decision, Request, StoreError};

use super::{Connection, RedisStore};

impl<C: Connection> RedisStore<C> {
    /// Keys do not wait for each other: what is asked of them is sent in one go, on a connection that is shared. What is
    /// asked of one key is asked in order, because an answer may take a second call.
    pub(super) async fn decide_each(&self, requests: &[Request<'_>]) -> Vec<Result<Decision, StoreError>> {
        let in_order = by_key(requests).into_iter().map(|indices| async move {
            let mut answers = Vec::with_capacity(indices.len());
            for index in indices {
                answers.push((index, self.decide(&requests[index], None).await));
            }
            answers
        });
        let mut answers: Vec<_> = join_all(in_order).await.into_iter().flatten().collect();
        answers.sort_by_key(|(index, _)| *index);
        answers.into_iter().map(|(_, answer)| answer).collect()
    }
}

/// The requests of each key, by number, the keys in the order in which they come first.
fn by_key(requests: &[Request<'_>]) -> Vec<Vec<usize>> {
    let (mut keys, mut places) = (Vec::new(), HashMap::new());
    for (index, request) in requests.iter().enumerate() {
        let place = *places.entry((request.scope.as_str(), request.key.as_raw())).or_insert(keys.len());
        if place == keys.len() {
            keys.push(Vec::new());
        }
        keys[place].push(index);
    }
    keys
}
