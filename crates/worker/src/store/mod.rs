//! The store over the Durable Objects of a Worker.

mod joint;
#[cfg(test)]
mod tests;

use std::fmt;
use std::future::Future;

use futures_util::future::join_all;
use http::StatusCode;
use tidegate::api::Problem;
use tidegate::api::apply::{ApplyMode, ApplyRequest, ApplyResponse, SendableBatch};
use tidegate::store::{Capabilities, Request};
use tidegate::{Decision, JointDecision, Store, StoreError, StoreErrorKind, Timestamp};
use worker::send::SendFuture;
use worker::{Env, ObjectNamespace};

pub use joint::CrossShard;

use crate::object::message::{MAX_MESSAGE_KEY_BYTES, ObjectAddress};
use crate::settings::BINDING;
use crate::shards::{Shards, object_name};

/// A store over Durable Objects: every key lives in one of them. Clones use the same objects.
///
/// ```no_run
/// use tidegate::resilience::Resilience;
/// use tidegate::{Limiter, Quota, minutes, seconds};
/// use tidegate_worker::{DurableObjectStore, WorkerClock};
///
/// # fn example(env: &worker::Env) -> Result<(), Box<dyn std::error::Error>> {
/// let limiter = Limiter::builder()
///     .limit("login", Quota::fixed_window(5, minutes(1))?)
///     .store(DurableObjectStore::new(env)?)
///     .resilience(Resilience::new(WorkerClock).timeout(seconds(2)))
///     .build()?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct DurableObjectStore(pub(crate) ShardedStore<NamespaceClient>);

impl DurableObjectStore {
    /// Creates a store over 128 of the objects that the Worker's configuration binds under [`BINDING`]. Returns an
    /// error when it binds none.
    pub fn new(env: &Env) -> worker::Result<Self> {
        // The name is fixed: an object finds the first object under it, too.
        Ok(DurableObjectStore(ShardedStore::new(NamespaceClient(env.durable_object(BINDING)?))))
    }

    /// Sets the number of objects. The first write makes it permanent.
    #[must_use]
    pub fn shards(mut self, shards: Shards) -> Self {
        self.0.shards = shards;
        self
    }

    /// Sets the handling of all-or-nothing calls whose keys live in different objects. Defaults to
    /// [`CrossShard::Refuse`].
    #[must_use]
    pub fn cross_shard(mut self, cross_shard: CrossShard) -> Self {
        self.0.cross_shard = cross_shard;
        self
    }
}

/// A store that spreads keys over objects behind a client.
#[derive(Clone)]
pub(crate) struct ShardedStore<P> {
    pub(crate) objects: P,
    pub(crate) shards: Shards,
    pub(crate) cross_shard: CrossShard,
}

/// A client that sends messages to objects.
pub(crate) trait ObjectClient: Send + Sync {
    /// Sends a message to an object and returns the body of its response.
    fn send(
        &self,
        address: ObjectAddress,
        path: &'static str,
        body: Vec<u8>,
    ) -> impl Future<Output = Result<Vec<u8>, StoreError>> + Send;
}

/// A client of the objects that the Worker's configuration binds.
#[derive(Clone)]
pub(crate) struct NamespaceClient(ObjectNamespace);

impl NamespaceClient {
    async fn fetch(&self, address: ObjectAddress, path: &str, body: &[u8]) -> Result<Vec<u8>, StoreError> {
        let unreachable = |error: worker::Error| {
            StoreError::new(StoreErrorKind::Unavailable, format!("object {} cannot be asked: {error}", address.shard))
        };
        let stub = self.0.get_by_name(&object_name(address.shard)).map_err(unreachable)?;
        let request = address.new_request(path, body).map_err(unreachable)?;
        let mut response = stub.fetch_with_request(request).await.map_err(unreachable)?;
        let body = response.bytes().await.map_err(unreachable)?;
        let status = StatusCode::from_u16(response.status_code()).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
        if status == StatusCode::OK {
            return Ok(body);
        }
        let kind = if status.is_client_error() { StoreErrorKind::Unsupported } else { StoreErrorKind::Unavailable };
        Err(StoreError::new(kind, problem_detail(status, &body)))
    }
}

impl ObjectClient for NamespaceClient {
    async fn send(&self, address: ObjectAddress, path: &'static str, body: Vec<u8>) -> Result<Vec<u8>, StoreError> {
        // A Worker has one thread, so nothing is ever sent to another.
        SendFuture::new(self.fetch(address, path, &body)).await
    }
}

/// Returns the detail of the problem that an object responds with.
pub(crate) fn problem_detail(status: StatusCode, body: &[u8]) -> String {
    Problem::detail_in(status, body).unwrap_or_else(|| format!("an object answered {status} and does not say why"))
}

impl<P: ObjectClient> ShardedStore<P> {
    pub(crate) fn new(objects: P) -> Self {
        ShardedStore { objects, shards: Shards::default(), cross_shard: CrossShard::default() }
    }

    /// Decides one request, now or at the time of a test.
    pub(crate) async fn decide(&self, request: &Request<'_>, at: Option<Timestamp>) -> Result<Decision, StoreError> {
        let shard = self.shards.index_of(request.key);
        self.send(shard, "apply", ApplyMode::Each, &[*request], at).await?.remove(0)
    }

    /// Decides each request on its own. Each object with some of the keys gets one message with its requests in order;
    /// the messages run concurrently.
    pub(crate) async fn decide_each(
        &self,
        requests: &[Request<'_>],
        at: Option<Timestamp>,
    ) -> Vec<Result<Decision, StoreError>> {
        let sendable = SendableBatch::of(requests, MAX_MESSAGE_KEY_BYTES);
        let requests = sendable.requests();
        let groups = self.group_by_shard(requests);
        let results = groups.iter().map(async |(shard, group)| {
            let share: Vec<_> = group.iter().map(|index| requests[*index]).collect();
            match self.send(*shard, "apply", ApplyMode::Each, &share, at).await {
                Ok(results) => results,
                Err(error) => share.iter().map(|_| Err(error.clone())).collect(),
            }
        });
        let results = join_all(results).await;
        let indices = groups.into_iter().flat_map(|(_, group)| group);
        let mut results: Vec<_> = indices.zip(results.into_iter().flatten()).collect();
        results.sort_by_key(|(index, _)| *index);
        let results = results.into_iter().map(|(_, result)| result).collect();
        sendable.results(results)
    }

    /// Groups the indices of the requests by object, in the order of first use.
    fn group_by_shard(&self, requests: &[Request<'_>]) -> Vec<(u16, Vec<usize>)> {
        let mut groups: Vec<(u16, Vec<usize>)> = Vec::new();
        for (index, request) in requests.iter().enumerate() {
            let shard = self.shards.index_of(request.key);
            match groups.iter_mut().find(|(known, _)| *known == shard) {
                Some((_, group)) => group.push(index),
                None => groups.push((shard, vec![index])),
            }
        }
        groups
    }

    /// Sends requests to one object and reads as many results.
    async fn send(
        &self,
        shard: u16,
        path: &'static str,
        mode: ApplyMode,
        requests: &[Request<'_>],
        at: Option<Timestamp>,
    ) -> Result<Vec<Result<Decision, StoreError>>, StoreError> {
        let body = ApplyRequest::new(mode, requests, at).to_json();
        let response = self.objects.send(ObjectAddress { shard, shards: self.shards }, path, body).await?;
        let results = ApplyResponse::parse(&response).filter(|results| results.len() == requests.len());
        results.ok_or_else(|| StoreError::new(StoreErrorKind::Unavailable, "an object answered something else"))
    }
}

impl<P> fmt::Debug for ShardedStore<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ShardedStore { shards, cross_shard, .. } = self;
        f.debug_struct("ShardedStore").field("shards", shards).field("cross_shard", cross_shard).finish_non_exhaustive()
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

impl<P: ObjectClient> Store for ShardedStore<P> {
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
