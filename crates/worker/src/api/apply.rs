//! The store contract itself, for stores that ask this Worker.

use futures_util::future::join_all;
use tidegate::api::apply::{ApplyMode, ApplyRequest, ApplyResponse, OwnedRequest, isolate_prefix};
use tidegate::api::{MAX_KEY_BYTES, Problem};
use tidegate::store::Request;
use tidegate::{Error, JointDecision, Store, StoreError, StoreErrorKind, Timestamp};

use super::{Answer, Api, problem, text};
use crate::object::Asked;
use crate::store::Objects;

impl<P: Objects> Api<P> {
    pub(super) async fn apply(&self, body: &[u8]) -> Result<Answer, Problem> {
        let call = ApplyRequest::parse(body)?;
        let at = call.at(self.testing)?;
        let owned = call.to_owned_requests(MAX_KEY_BYTES, isolate_prefix)?;
        let requests: Vec<_> = owned.iter().map(OwnedRequest::request).collect();
        let answers = match call.mode() {
            ApplyMode::Each => match at {
                None => self.guarded.apply_each(&requests).await,
                at => self.store.decide_each(&requests, at).await,
            },
            ApplyMode::All => match self.all_or_nothing(&requests, at).await {
                Ok(all) => all.into_decisions().into_iter().map(Ok).collect(),
                Err(error) => requests.iter().map(|_| Err(error.clone())).collect(),
            },
        };
        Ok(text(ApplyResponse::new(&answers).to_json()))
    }

    async fn all_or_nothing(
        &self,
        requests: &[Request<'_>],
        at: Option<Timestamp>,
    ) -> Result<JointDecision, StoreError> {
        match at {
            None => self.guarded.apply_all(requests).await,
            at => self.store.decide_all(requests, at).await,
        }
    }

    /// Sweeps every object as its alarm does, at the time of a test, and says how many keys are left.
    pub(super) async fn sweep(&self, at: &[u8]) -> Result<Answer, Problem> {
        let shards = self.store.shards;
        let sent =
            (0..shards.count()).map(|shard| self.store.objects.send(Asked { shard, shards }, "sweep", at.to_vec()));
        let mut held = 0_u64;
        for answer in join_all(sent).await {
            let answer = answer.map_err(|error| problem(&Error::Store(error)))?;
            let left = str::from_utf8(&answer).ok().and_then(|left| left.parse::<u64>().ok());
            held += left.ok_or_else(|| Problem::internal(StoreErrorKind::Corrupt.as_str()))?;
        }
        Ok(text(held.to_string().into_bytes()))
    }
}
