//! Many requests at once, each on its own.

use std::collections::HashMap;
use std::future::Future;

use futures_util::future::join_all;
use tidegate_core::{Decision, Request, StoreError};

/// Keys do not wait for each other: what is asked of them is sent in one go. What is asked of one key is asked in order,
/// because an answer may take a second call.
pub(crate) async fn each<F>(requests: &[Request<'_>], decide: impl Fn(usize) -> F) -> Vec<Result<Decision, StoreError>>
where
    F: Future<Output = Result<Decision, StoreError>>,
{
    let in_order = by_key(requests).into_iter().map(async |indices| {
        let mut answers = Vec::with_capacity(indices.len());
        for index in indices {
            answers.push((index, decide(index).await));
        }
        answers
    });
    let mut answers: Vec<_> = join_all(in_order).await.into_iter().flatten().collect();
    answers.sort_by_key(|(index, _)| *index);
    answers.into_iter().map(|(_, answer)| answer).collect()
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
