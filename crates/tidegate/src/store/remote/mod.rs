//! A store behind `POST /v1/apply` of a server, for many processes that share one server or the edge.
//!
//! The server is `tidegate serve`, or a Worker with Durable Objects; both speak [`api::apply`](crate::api::apply). The
//! quota travels with each request, so the server needs no config of its own for it. The server's clock decides.

mod background_connector;
mod builder;
mod client;
mod connector;
mod error;

use std::fmt;

use tidegate_core::{Capabilities, Decision, JointDecision, Request, Store, StoreError, StoreErrorKind, Timestamp};

use crate::api::apply::{ApplyMode, ApplyRequest, SendableBatch};
use crate::api::{MAX_BATCH_BODY_BYTES, MAX_BATCH_LEN, MAX_KEY_BYTES};
pub use builder::RemoteStoreBuilder;
use client::Client;

/// A store behind `POST /v1/apply` of a server. Clones share the connections.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use tidegate::remote::RemoteStore;
/// use tidegate::{Limiter, Quota, minutes};
///
/// let store = RemoteStore::new("http://127.0.0.1:8080")?; // or with a token: RemoteStore::builder(..).token(..)
/// let limiter =
///     Limiter::builder().limit("login", Quota::fixed_window(5, minutes(1))?).store(store).build()?;
/// let decision = limiter.limit("login", "alice").await?;
/// # Ok(()) }
/// ```
///
/// It needs a tokio runtime to connect on. Its only timeout is for connecting; a limiter adds one for answers.
#[derive(Clone)]
pub struct RemoteStore {
    client: Client,
    atomic_all: bool,
}

impl RemoteStore {
    /// Creates a store behind the server at this URL, without a token. It does not connect yet.
    pub fn new(url: &str) -> Result<Self, StoreError> {
        Self::builder(url).build()
    }

    /// Returns a builder with the settings of the store.
    pub fn builder(url: impl Into<String>) -> RemoteStoreBuilder {
        RemoteStoreBuilder::new(url.into())
    }

    async fn decide(&self, request: &Request<'_>, at: Option<Timestamp>) -> Result<Decision, StoreError> {
        let requests = [*request];
        let call = ApplyRequest::new(ApplyMode::Each, &requests, at).to_json();
        self.client.send(call, 1).await.and_then(|mut results| results.remove(0))
    }

    async fn decide_all(&self, requests: &[Request<'_>], at: Option<Timestamp>) -> Result<JointDecision, StoreError> {
        if requests.is_empty() {
            return Ok(JointDecision::new(Vec::new()));
        }
        let call = ApplyRequest::new(ApplyMode::All, requests, at).to_json();
        let decisions = self.client.send(call, requests.len()).await?.into_iter().collect::<Result<_, _>>()?;
        Ok(JointDecision::new(decisions))
    }

    /// Sends as few calls as the server accepts, one after the other, because the requests are applied in order.
    async fn decide_each(&self, requests: &[Request<'_>]) -> Vec<Result<Decision, StoreError>> {
        let sendable = SendableBatch::of(requests, MAX_KEY_BYTES);
        let (mut results, mut rest) = (Vec::with_capacity(requests.len()), sendable.requests());
        while !rest.is_empty() {
            let (mut chunk, mut call);
            let mut len = rest.len().min(MAX_BATCH_LEN);
            loop {
                chunk = &rest[..len];
                call = ApplyRequest::new(ApplyMode::Each, chunk, None).to_json();
                if call.len() <= MAX_BATCH_BODY_BYTES || len == 1 {
                    break;
                }
                len = len.div_ceil(2);
            }
            match self.client.send(call, chunk.len()).await {
                Ok(decided) => results.extend(decided),
                Err(error) => results.extend(chunk.iter().map(|_| Err(error.clone()))),
            }
            rest = &rest[len..];
        }
        sendable.results(results)
    }
}

impl fmt::Debug for RemoteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteStore").field("url", &self.client.url()).finish_non_exhaustive()
    }
}

impl Store for RemoteStore {
    fn capabilities(&self) -> Capabilities {
        Capabilities::default().with_atomic_all(self.atomic_all)
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
        self.decide_each(requests).await
    }

    async fn close(&self) {}
}

#[cfg(feature = "testing")]
impl tidegate_core::TestableStore for RemoteStore {
    async fn apply_at(&self, request: &Request<'_>, at: Timestamp) -> Result<Decision, StoreError> {
        self.decide(request, Some(at)).await
    }

    async fn apply_all_at(&self, requests: &[Request<'_>], at: Timestamp) -> Result<JointDecision, StoreError> {
        self.decide_all(requests, Some(at)).await
    }

    async fn sweep_at(&self, _: Timestamp) -> Option<usize> {
        // The server evicts keys by itself and does not report their number.
        None
    }
}

fn unsupported(message: String) -> StoreError {
    StoreError::new(StoreErrorKind::Unsupported, message)
}
