//! The store behind `POST /v1/apply`: many processes that ask one server, or the edge.
//!
//! The server is `tidegate serve`, or a Worker with Durable Objects; both speak [`api::apply`](crate::api::apply). The
//! quota travels with each request, so the server needs no config of its own for it, and its clock is the one that counts.

mod builder;
mod client;
mod connector;
mod error;
mod kept;

use std::fmt;

use tidegate_core::{Capabilities, Decision, JointDecision, Request, Store, StoreError, StoreErrorKind, Timestamp};

use crate::api::apply::{ApplyMode, ApplyRequest, SendableBatch};
use crate::api::{MAX_BATCH_BODY_BYTES, MAX_BATCH_LEN, MAX_KEY_BYTES};
pub use builder::RemoteStoreBuilder;
use client::Client;

/// The store behind `POST /v1/apply` of a server. Clones share the connections.
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
/// It needs a tokio runtime to connect on. It has no timeout but for connecting; a limiter adds one for answers.
#[derive(Clone)]
pub struct RemoteStore {
    client: Client,
    atomic_all: bool,
}

impl RemoteStore {
    /// A store behind the server at this address, without a token. Nothing is connected to yet.
    pub fn new(url: &str) -> Result<Self, StoreError> {
        Self::builder(url).build()
    }

    /// A store with settings.
    pub fn builder(url: impl Into<String>) -> RemoteStoreBuilder {
        RemoteStoreBuilder::new(url.into())
    }

    async fn one(&self, request: &Request<'_>, at: Option<Timestamp>) -> Result<Decision, StoreError> {
        let requests = [*request];
        let call = ApplyRequest::new(ApplyMode::Each, &requests, at).to_json();
        self.client.ask(call, 1).await.and_then(|mut answers| answers.remove(0))
    }

    async fn all(&self, requests: &[Request<'_>], at: Option<Timestamp>) -> Result<JointDecision, StoreError> {
        if requests.is_empty() {
            return Ok(JointDecision::new(Vec::new()));
        }
        let call = ApplyRequest::new(ApplyMode::All, requests, at).to_json();
        let decisions = self.client.ask(call, requests.len()).await?.into_iter().collect::<Result<_, _>>()?;
        Ok(JointDecision::new(decisions))
    }

    /// As few calls as the server takes, one after the other, because each of them is applied in order.
    async fn each(&self, requests: &[Request<'_>]) -> Vec<Result<Decision, StoreError>> {
        let sendable = SendableBatch::of(requests, MAX_KEY_BYTES);
        let (mut answers, mut rest) = (Vec::with_capacity(requests.len()), sendable.requests());
        while !rest.is_empty() {
            let (mut now, mut call);
            let mut most = rest.len().min(MAX_BATCH_LEN);
            loop {
                now = &rest[..most];
                call = ApplyRequest::new(ApplyMode::Each, now, None).to_json();
                if call.len() <= MAX_BATCH_BODY_BYTES || most == 1 {
                    break;
                }
                most = most.div_ceil(2);
            }
            match self.client.ask(call, now.len()).await {
                Ok(some) => answers.extend(some),
                Err(error) => answers.extend(now.iter().map(|_| Err(error.clone()))),
            }
            rest = &rest[most..];
        }
        sendable.results(answers)
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
        self.one(request, None).await
    }

    async fn apply_all(&self, requests: &[Request<'_>]) -> Result<JointDecision, StoreError> {
        self.all(requests, None).await
    }

    async fn apply_each(&self, requests: &[Request<'_>]) -> Vec<Result<Decision, StoreError>> {
        self.each(requests).await
    }

    async fn close(&self) {}
}

#[cfg(feature = "testing")]
impl tidegate_core::Testing for RemoteStore {
    async fn apply_at(&self, request: &Request<'_>, at: Timestamp) -> Result<Decision, StoreError> {
        self.one(request, Some(at)).await
    }

    async fn apply_all_at(&self, requests: &[Request<'_>], at: Timestamp) -> Result<JointDecision, StoreError> {
        self.all(requests, Some(at)).await
    }

    async fn held_at(&self, _: Timestamp) -> Option<usize> {
        // The server forgets by itself, and does not say.
        None
    }
}

fn unsupported(message: String) -> StoreError {
    StoreError::new(StoreErrorKind::Unsupported, message)
}
