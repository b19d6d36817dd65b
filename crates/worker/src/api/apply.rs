//! The store contract over HTTP, for remote stores.

use futures_util::future::join_all;
use tidegate::api::apply::{ApplyMode, ApplyRequest, ApplyResponse, OwnedRequest, isolate_prefix};
use tidegate::api::{MAX_KEY_BYTES, Problem};
use tidegate::store::Request;
use tidegate::{Error, JointDecision, Store, StoreError, StoreErrorKind, Timestamp};

use super::{Api, ApiResponse, json_bytes, to_problem};
use crate::object::message::ObjectAddress;
use crate::store::ObjectClient;

impl<P: ObjectClient> Api<P> {
    pub(super) async fn apply(&self, body: &[u8]) -> Result<ApiResponse, Problem> {
        let call = ApplyRequest::parse(body)?;
        let at = call.at(self.testing)?;
        let owned = call.to_owned_requests(MAX_KEY_BYTES, isolate_prefix)?;
        let requests: Vec<_> = owned.iter().map(OwnedRequest::request).collect();
        let results = match call.mode() {
            ApplyMode::Each => match at {
                None => self.resilient_store.apply_each(&requests).await,
                at => self.store.decide_each(&requests, at).await,
            },
            ApplyMode::All => match self.decide_all(&requests, at).await {
                Ok(all) => all.into_decisions().into_iter().map(Ok).collect(),
                Err(error) => requests.iter().map(|_| Err(error.clone())).collect(),
            },
        };
        Ok(json_bytes(ApplyResponse::new(&results).to_json()))
    }

    async fn decide_all(&self, requests: &[Request<'_>], at: Option<Timestamp>) -> Result<JointDecision, StoreError> {
        match at {
            None => self.resilient_store.apply_all(requests).await,
            at => self.store.decide_all(requests, at).await,
        }
    }

    /// Sweeps every object as its alarm does, at the time of a test. Responds with the number of keys that remain.
    pub(super) async fn sweep(&self, at: &[u8]) -> Result<ApiResponse, Problem> {
        let shards = self.store.shards;
        let responses = (0..shards.count())
            .map(|shard| self.store.objects.send(ObjectAddress { shard, shards }, "sweep", at.to_vec()));
        let mut remaining = 0_u64;
        for body in join_all(responses).await {
            let body = body.map_err(|error| to_problem(&Error::Store(error)))?;
            let rows = str::from_utf8(&body).ok().and_then(|rows| rows.parse::<u64>().ok());
            remaining += rows.ok_or_else(|| Problem::internal(StoreErrorKind::Corrupt.as_str()))?;
        }
        Ok(json_bytes(remaining.to_string().into_bytes()))
    }
}
