//! Decisions by the limits of this Worker.

use tidegate::api::{
    self, Admitted, All, Asked, Batch, Held, Kept, Op, Place, Problem, Released, Renewed, Reply, Several,
};
use tidegate::{Call, Decision};

use super::{Answer, Api, json, problem, text};
use crate::store::Objects;

impl<P: Objects> Api<P> {
    pub(super) async fn decide(&self, op: Op, body: &[u8]) -> Result<Answer, Problem> {
        let asked: Asked<'_> = api::parse(body, Asked::EXAMPLE)?;
        let call = self.call(op, &asked)?;
        let decision = call.await.map_err(|error| problem(&error))?;
        Ok(text(Reply::from(&decision).to_json()))
    }

    pub(super) async fn all(&self, body: &[u8]) -> Result<Answer, Problem> {
        let several = Several::parse(body)?;
        let all = self.limiter.all(self.calls(&several)?).await.map_err(|error| problem(&error))?;
        Ok(json(&All::from(&all)))
    }

    pub(super) async fn batch(&self, body: &[u8]) -> Result<Answer, Problem> {
        let several = Several::parse(body)?;
        let answers = self.limiter.each(self.calls(&several)?).await;
        Ok(json(&Batch::new(&answers, problem)))
    }

    pub(super) async fn admit(&self, body: &[u8]) -> Result<Answer, Problem> {
        let place: Place<'_> = api::parse(body, Place::EXAMPLE)?;
        let (limit, key) = (&*place.limit, place.key.checked()?);
        let call = self.limiter.admit(limit, &key);
        let held = Held { lease: call.asked_for(), limit: limit.into(), key: key.to_text() };
        let admitted = call.await.map_err(|error| problem(&error))?;
        let quota = self.limiter.quota(limit).ok();
        Ok(json(&Admitted::new(admitted.decision(), &held, quota.as_ref())))
    }

    pub(super) async fn renew(&self, body: &[u8]) -> Result<Answer, Problem> {
        let Renewed { lease } = api::parse(body, Held::EXAMPLE)?;
        let (held, key) = Held::read(&lease)?;
        let decision = self.asked(self.limiter.renew(&held.limit, key, held.lease)).await?;
        Ok(json(&Kept::new(&decision, self.limiter.quota(&held.limit).ok().as_ref())))
    }

    pub(super) async fn release(&self, body: &[u8]) -> Result<Answer, Problem> {
        let released: Released<'_> = api::parse(body, Held::EXAMPLE)?;
        released.work()?;
        let (held, key) = Held::read(&released.lease)?;
        let decision = self.asked(self.limiter.release(&held.limit, key, held.lease)).await?;
        Ok(text(Reply::from(&decision).to_json()))
    }

    async fn asked(&self, call: Call<'_>) -> Result<Decision, Problem> {
        call.await.map_err(|error| problem(&error))
    }

    /// The questions, once nothing is wrong with any of them.
    fn calls<'a>(&'a self, several: &'a Several<'_>) -> Result<Vec<Call<'a>>, Problem> {
        for asked in &several.requests {
            self.limiter.quota(&asked.limit).map_err(|error| problem(&error))?;
        }
        several.requests.iter().map(|asked| self.call(Op::Limit, asked)).collect()
    }

    fn call<'a>(&'a self, op: Op, asked: &'a Asked<'_>) -> Result<Call<'a>, Problem> {
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
