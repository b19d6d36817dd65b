//! Decisions by the limits of this Worker.

use tidegate::api::{
    self, AdmitRequest, AdmitResponse, BatchRequest, BatchResponse, DecisionResponse, JointResponse, LeaseToken,
    LimitRequest, Op, Problem, ReleaseRequest, RenewRequest, RenewResponse,
};
use tidegate::{Call, Decision};

use super::{Answer, Api, json, problem, text};
use crate::store::Objects;

impl<P: Objects> Api<P> {
    pub(super) async fn decide(&self, op: Op, body: &[u8]) -> Result<Answer, Problem> {
        let asked: LimitRequest<'_> = api::parse(body, LimitRequest::EXAMPLE)?;
        let call = self.call(op, &asked)?;
        let decision = call.await.map_err(|error| problem(&error))?;
        Ok(text(DecisionResponse::from(&decision).to_json()))
    }

    pub(super) async fn all(&self, body: &[u8]) -> Result<Answer, Problem> {
        let several = BatchRequest::parse(body)?;
        let all = self.limiter.limit_all(self.calls(&several)?).await.map_err(|error| problem(&error))?;
        Ok(json(&JointResponse::from(&all)))
    }

    pub(super) async fn batch(&self, body: &[u8]) -> Result<Answer, Problem> {
        let several = BatchRequest::parse(body)?;
        let answers = self.limiter.batch(self.calls(&several)?).await;
        Ok(json(&BatchResponse::new(&answers, problem)))
    }

    pub(super) async fn admit(&self, body: &[u8]) -> Result<Answer, Problem> {
        let place: AdmitRequest<'_> = api::parse(body, AdmitRequest::EXAMPLE)?;
        let (limit, key) = (&*place.limit, place.key.checked()?);
        let call = self.limiter.admit(limit, &key);
        let held = LeaseToken { lease: call.requested_lease(), limit: limit.into(), key: key.to_text() };
        let admitted = call.await.map_err(|error| problem(&error))?;
        let quota = self.limiter.quota(limit).ok();
        Ok(json(&AdmitResponse::new(admitted.decision(), &held, quota.as_ref())))
    }

    pub(super) async fn renew(&self, body: &[u8]) -> Result<Answer, Problem> {
        let RenewRequest { lease } = api::parse(body, LeaseToken::EXAMPLE)?;
        let (held, key) = LeaseToken::read(&lease)?;
        let decision = self.asked(self.limiter.renew(&held.limit, key, held.lease)).await?;
        Ok(json(&RenewResponse::new(&decision, self.limiter.quota(&held.limit).ok().as_ref())))
    }

    pub(super) async fn release(&self, body: &[u8]) -> Result<Answer, Problem> {
        let released: ReleaseRequest<'_> = api::parse(body, LeaseToken::EXAMPLE)?;
        released.completion()?;
        let (held, key) = LeaseToken::read(&released.lease)?;
        let decision = self.asked(self.limiter.release(&held.limit, key, held.lease)).await?;
        Ok(text(DecisionResponse::from(&decision).to_json()))
    }

    async fn asked(&self, call: Call<'_>) -> Result<Decision, Problem> {
        call.await.map_err(|error| problem(&error))
    }

    /// The questions, once nothing is wrong with any of them.
    fn calls<'a>(&'a self, several: &'a BatchRequest<'_>) -> Result<Vec<Call<'a>>, Problem> {
        for asked in &several.requests {
            self.limiter.quota(&asked.limit).map_err(|error| problem(&error))?;
        }
        several.requests.iter().map(|asked| self.call(Op::Limit, asked)).collect()
    }

    fn call<'a>(&'a self, op: Op, asked: &'a LimitRequest<'_>) -> Result<Call<'a>, Problem> {
        let (limit, key) = (&*asked.limit, asked.key.checked()?);
        let call = match op {
            Op::Check => self.limiter.check(limit, key),
            Op::Reserve => self.limiter.reserve(limit, key),
            Op::Refund => self.limiter.refund(limit, key),
            Op::Reset => self.limiter.reset(limit, key),
            Op::Admit(lease) => self.limiter.admit(limit, key).lease(lease).into(),
            Op::Renew(lease) => self.limiter.renew(limit, key, lease),
            Op::Release(lease) => self.limiter.release(limit, key, lease),
            Op::Limit => self.limiter.limit(limit, key),
        };
        Ok(call.cost(asked.cost.0))
    }
}
