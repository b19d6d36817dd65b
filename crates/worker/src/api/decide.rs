//! Decisions by the named limits of the Worker.

use tidegate::api::{
    self, AdmitRequest, AdmitResponse, BatchRequest, BatchResponse, DecisionResponse, JointResponse, LeaseToken,
    LimitRequest, Op, Problem, ReleaseRequest, RenewRequest, RenewResponse,
};
use tidegate::{Call, Decision};

use super::{Api, ApiResponse, json, json_bytes, to_problem};
use crate::store::ObjectClient;

impl<P: ObjectClient> Api<P> {
    pub(super) async fn decide(&self, op: Op, body: &[u8]) -> Result<ApiResponse, Problem> {
        let request: LimitRequest<'_> = api::parse(body, LimitRequest::EXAMPLE)?;
        let call = self.call(op, &request)?;
        let decision = call.await.map_err(|error| to_problem(&error))?;
        Ok(json_bytes(DecisionResponse::from(&decision).to_json()))
    }

    pub(super) async fn limit_all(&self, body: &[u8]) -> Result<ApiResponse, Problem> {
        let batch = BatchRequest::parse(body)?;
        let all = self.limiter.limit_all(self.calls(&batch)?).await.map_err(|error| to_problem(&error))?;
        Ok(json(&JointResponse::from(&all)))
    }

    pub(super) async fn batch(&self, body: &[u8]) -> Result<ApiResponse, Problem> {
        let batch = BatchRequest::parse(body)?;
        let results = self.limiter.batch(self.calls(&batch)?).await;
        Ok(json(&BatchResponse::new(&results, to_problem)))
    }

    pub(super) async fn admit(&self, body: &[u8]) -> Result<ApiResponse, Problem> {
        let request: AdmitRequest<'_> = api::parse(body, AdmitRequest::EXAMPLE)?;
        let (limit, key) = (&*request.limit, request.key.checked()?);
        let call = self.limiter.admit(limit, &key);
        let token = LeaseToken { lease: call.requested_lease(), limit: limit.into(), key: key.to_text() };
        let admitted = call.await.map_err(|error| to_problem(&error))?;
        let quota = self.limiter.quota(limit).ok();
        Ok(json(&AdmitResponse::new(admitted.decision(), &token, quota.as_ref())))
    }

    pub(super) async fn renew(&self, body: &[u8]) -> Result<ApiResponse, Problem> {
        let RenewRequest { lease } = api::parse(body, LeaseToken::EXAMPLE)?;
        let (token, key) = LeaseToken::read(&lease)?;
        let decision = self.decision(self.limiter.renew(&token.limit, key, token.lease)).await?;
        Ok(json(&RenewResponse::new(&decision, self.limiter.quota(&token.limit).ok().as_ref())))
    }

    pub(super) async fn release(&self, body: &[u8]) -> Result<ApiResponse, Problem> {
        let request: ReleaseRequest<'_> = api::parse(body, LeaseToken::EXAMPLE)?;
        request.completion()?;
        let (token, key) = LeaseToken::read(&request.lease)?;
        let decision = self.decision(self.limiter.release(&token.limit, key, token.lease)).await?;
        Ok(json_bytes(DecisionResponse::from(&decision).to_json()))
    }

    async fn decision(&self, call: Call<'_>) -> Result<Decision, Problem> {
        call.await.map_err(|error| to_problem(&error))
    }

    /// Builds the calls of a batch, after all of its requests are validated.
    fn calls<'a>(&'a self, batch: &'a BatchRequest<'_>) -> Result<Vec<Call<'a>>, Problem> {
        for request in &batch.requests {
            self.limiter.quota(&request.limit).map_err(|error| to_problem(&error))?;
        }
        batch.requests.iter().map(|request| self.call(Op::Limit, request)).collect()
    }

    fn call<'a>(&'a self, op: Op, request: &'a LimitRequest<'_>) -> Result<Call<'a>, Problem> {
        let (limit, key) = (&*request.limit, request.key.checked()?);
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
        Ok(call.cost(request.cost.0))
    }
}
