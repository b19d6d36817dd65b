//! The store that a Worker asks: its objects.

mod all;
mod namespace;
#[cfg(test)]
mod tests;

use std::fmt;
use std::future::Future;

use futures_util::future::join_all;
use tidegate::api::apply::{ApplyMode, ApplyRequest, ApplyResponse, SendableBatch};
use tidegate::store::{Capabilities, Request};
use tidegate::{Decision, JointDecision, Store, StoreError, StoreErrorKind, Timestamp};
use worker::Env;

pub use all::CrossShard;
pub(crate) use namespace::{Namespace, detail};

use crate::object::Asked;
use crate::object::message::LONGEST;
use crate::settings::BINDING;
use crate::shards::Shards;

/// The store that a Worker asks: every key lives in one of its objects. Clones ask the same ones.
///
/// ```no_run
/// use tidegate::resilience::Resilience;
/// use tidegate::{Limiter, Quota, minutes, seconds};
/// use tidegate_worker::{DurableObjectStore, Edge};
///
/// # fn example(env: &worker::Env) -> Result<(), Box<dyn std::error::Error>> {
/// let limiter = Limiter::builder()
///     .limit("login", Quota::fixed_window(5, minutes(1))?)
///     .store(DurableObjectStore::new(env)?)
///     .resilience(Resilience::new(Edge).timeout(seconds(2)))
///     .build()?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct DurableObjectStore(pub(crate) Sharded<Namespace>);

impl DurableObjectStore {
    /// The objects that the Worker's configuration binds under [`BINDING`], 128 of them. An error when it binds none.
    pub fn new(env: &Env) -> worker::Result<Self> {
        // No other name: the objects look for the first of them under the same one.
        Ok(DurableObjectStore(Sharded::new(Namespace::new(env.durable_object(BINDING)?))))
    }

    /// How many objects there are. The first write settles it.
    #[must_use]
    pub fn shards(mut self, shards: Shards) -> Self {
        self.0.shards = shards;
        self
    }

    /// What becomes of an all-or-nothing call whose keys live in different objects.
    #[must_use]
    pub fn cross_shard(mut self, cross_shard: CrossShard) -> Self {
        self.0.cross_shard = cross_shard;
        self
    }
}

/// Keys over objects, however those are reached.
#[derive(Clone)]
pub(crate) struct Sharded<P> {
    pub(crate) objects: P,
    pub(crate) shards: Shards,
    pub(crate) cross_shard: CrossShard,
}

/// The objects, as the store reaches them.
pub(crate) trait Objects: Send + Sync {
    /// Sends a message to an object.
    fn send(
        &self,
        to: Asked,
        what: &'static str,
        body: Vec<u8>,
    ) -> impl Future<Output = Result<Vec<u8>, StoreError>> + Send;
}

impl<P: Objects> Sharded<P> {
    pub(crate) fn new(objects: P) -> Self {
        Sharded { objects, shards: Shards::default(), cross_shard: CrossShard::default() }
    }

    /// One request, at a time that a test may say.
    pub(crate) async fn decide(&self, request: &Request<'_>, at: Option<Timestamp>) -> Result<Decision, StoreError> {
        let shard = self.shards.of(request.key);
        self.ask(shard, "apply", ApplyMode::Each, &[*request], at).await?.remove(0)
    }

    /// Each on its own: one message to every object that has some of the keys, all at once, in order within each.
    pub(crate) async fn decide_each(
        &self,
        requests: &[Request<'_>],
        at: Option<Timestamp>,
    ) -> Vec<Result<Decision, StoreError>> {
        let sendable = SendableBatch::of(requests, LONGEST);
        let requests = sendable.requests();
        let groups = self.groups(requests);
        let answers = groups.iter().map(async |(shard, group)| {
            let share: Vec<_> = group.iter().map(|index| requests[*index]).collect();
            match self.ask(*shard, "apply", ApplyMode::Each, &share, at).await {
                Ok(answers) => answers,
                Err(error) => share.iter().map(|_| Err(error.clone())).collect(),
            }
        });
        let answers = join_all(answers).await;
        let indices = groups.into_iter().flat_map(|(_, group)| group);
        let mut answers: Vec<_> = indices.zip(answers.into_iter().flatten()).collect();
        answers.sort_by_key(|(index, _)| *index);
        let answers = answers.into_iter().map(|(_, answer)| answer).collect();
        sendable.results(answers)
    }

    /// The requests of each object, by number, the objects in the order in which they come first.
    fn groups(&self, requests: &[Request<'_>]) -> Vec<(u16, Vec<usize>)> {
        let mut groups: Vec<(u16, Vec<usize>)> = Vec::new();
        for (index, request) in requests.iter().enumerate() {
            let shard = self.shards.of(request.key);
            match groups.iter_mut().find(|(known, _)| *known == shard) {
                Some((_, group)) => group.push(index),
                None => groups.push((shard, vec![index])),
            }
        }
        groups
    }

    /// Asks one object, and reads as many answers as there are requests.
    async fn ask(
        &self,
        shard: u16,
        what: &'static str,
        mode: ApplyMode,
        requests: &[Request<'_>],
        at: Option<Timestamp>,
    ) -> Result<Vec<Result<Decision, StoreError>>, StoreError> {
        let body = ApplyRequest::new(mode, requests, at).to_json();
        let answer = self.objects.send(Asked { shard, shards: self.shards }, what, body).await?;
        let answers = ApplyResponse::parse(&answer).filter(|answers| answers.len() == requests.len());
        answers.ok_or_else(|| StoreError::new(StoreErrorKind::Unavailable, "an object answered something else"))
    }
}

impl<P> fmt::Debug for Sharded<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Sharded { shards, cross_shard, .. } = self;
        f.debug_struct("Sharded").field("shards", shards).field("apart", cross_shard).finish_non_exhaustive()
    }
}

impl Store for DurableObjectStore {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn try_apply(&self, request: &Request<'_>) -> Option<Result<Decision, StoreError>> {
        self.0.try_apply(request)
    }

    async fn apply(&self, request: &Request<'_>) -> Result<Decision, StoreError> {
        self.0.apply(request).await
    }

    async fn apply_all(&self, requests: &[Request<'_>]) -> Result<JointDecision, StoreError> {
        self.0.apply_all(requests).await
    }

    async fn apply_each(&self, requests: &[Request<'_>]) -> Vec<Result<Decision, StoreError>> {
        self.0.apply_each(requests).await
    }

    async fn close(&self) {
        self.0.close().await;
    }
}

impl<P: Objects> Store for Sharded<P> {
    fn capabilities(&self) -> Capabilities {
        Capabilities::default().with_atomic_all(self.shards.count() == 1)
    }

    fn try_apply(&self, _: &Request<'_>) -> Option<Result<Decision, StoreError>> {
        None
    }

    async fn apply(&self, request: &Request<'_>) -> Result<Decision, StoreError> {
        self.decide(request, None).await
    }

    async fn apply_all(&self, requests: &[Request<'_>]) -> Result<JointDecision, StoreError> {
        self.decide_all(requests, None).await
    }

    async fn apply_each(&self, requests: &[Request<'_>]) -> Vec<Result<Decision, StoreError>> {
        self.decide_each(requests, None).await
    }

    async fn close(&self) {}
}
