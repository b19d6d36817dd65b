//! Envoy's rate limit service, v3.

use std::sync::Arc;

use envoy_types::pb::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use envoy_types::pb::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::RateLimitOverride;
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::rate_limit::Unit as WireUnit;
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::{
    Code as WireCode, DescriptorStatus, RateLimit,
};
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_service_server::RateLimitService;
use envoy_types::pb::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use envoy_types::pb::envoy::r#type::v3::RateLimitUnit;
use envoy_types::pb::google::protobuf::Duration;
use tidegate::config::envoy::{Override, Unit};
use tidegate::{Error, ceil_seconds};
use tonic::{Request, Response, Status as Refusal};

use crate::serve::envoy::{Asked, Code, Hits, Status, check, decide_served};
use crate::serve::gate::Gate;

pub(crate) struct RateLimits {
    gate: Arc<Gate>,
}

impl RateLimits {
    pub(super) fn new(gate: Arc<Gate>) -> Self {
        RateLimits { gate }
    }
}

#[tonic::async_trait]
impl RateLimitService for RateLimits {
    async fn should_rate_limit(
        &self,
        request: Request<RateLimitRequest>,
    ) -> Result<Response<RateLimitResponse>, Refusal> {
        decide(&self.gate, request.get_ref()).await.map(Response::new)
    }
}

/// What becomes of a request.
pub(super) async fn decide(gate: &Gate, request: &RateLimitRequest) -> Result<RateLimitResponse, Refusal> {
    check(&request.domain, request.descriptors.len()).map_err(Refusal::unknown)?;
    let asked = request.descriptors.iter().map(|descriptor| asked(descriptor, request.hits_addend));
    let asked = asked.collect::<Result<Vec<_>, _>>()?;
    let verdict = decide_served(gate, &request.domain, &asked).await.map_err(|error| refused(&error))?;
    Ok(RateLimitResponse {
        overall_code: wire_code(verdict.code),
        statuses: verdict.statuses.into_iter().map(wire_status).collect(),
        ..RateLimitResponse::default()
    })
}

fn asked(descriptor: &RateLimitDescriptor, hits: u32) -> Result<Asked<'_>, Refusal> {
    let own = descriptor.hits_addend.as_ref().map(|hits| hits.value);
    Ok(Asked {
        entries: descriptor.entries.iter().map(|entry| (&*entry.key, &*entry.value)).collect(),
        limit: descriptor.limit.as_ref().map(overriding).transpose()?,
        hits: Hits::of(own, descriptor.is_negative_hits, hits),
    })
}

fn overriding(limit: &RateLimitOverride) -> Result<Override, Refusal> {
    let unit = match limit.unit() {
        RateLimitUnit::Unknown => return Err(Refusal::unknown("the unit of a limit override is not known")),
        RateLimitUnit::Second => Unit::Second,
        RateLimitUnit::Minute => Unit::Minute,
        RateLimitUnit::Hour => Unit::Hour,
        RateLimitUnit::Day => Unit::Day,
        RateLimitUnit::Month => Unit::Month,
        RateLimitUnit::Year => Unit::Year,
    };
    Ok(Override { requests_per_unit: limit.requests_per_unit, unit })
}

/// Why nothing was decided: what Envoy then does is a setting of its own.
fn refused(error: &Error) -> Refusal {
    match error {
        Error::UnknownLimit(_) => Refusal::internal(error.to_string()),
        error if error.is_misuse() => Refusal::invalid_argument(error.to_string()),
        error => Refusal::unavailable(error.to_string()),
    }
}

fn wire_code(code: Code) -> i32 {
    let code = match code {
        Code::Ok => WireCode::Ok,
        Code::OverLimit => WireCode::OverLimit,
    };
    code.into()
}

fn wire_status(status: Status) -> DescriptorStatus {
    let until_reset = status.until_reset();
    DescriptorStatus {
        code: wire_code(status.code),
        current_limit: status.limit.map(|limit| RateLimit {
            name: limit.name,
            requests_per_unit: limit.requests_per_unit,
            unit: wire_unit(limit.unit).into(),
        }),
        limit_remaining: status.remaining,
        // Whole seconds, rounded up: Envoy tells its clients the seconds only.
        duration_until_reset: until_reset
            .map(|reset| Duration { seconds: i64::try_from(ceil_seconds(reset)).unwrap_or(i64::MAX), nanos: 0 }),
        ..DescriptorStatus::default()
    }
}

fn wire_unit(unit: Unit) -> WireUnit {
    match unit {
        Unit::Second => WireUnit::Second,
        Unit::Minute => WireUnit::Minute,
        Unit::Hour => WireUnit::Hour,
        Unit::Day => WireUnit::Day,
        Unit::Week => WireUnit::Week,
        Unit::Month => WireUnit::Month,
        Unit::Year => WireUnit::Year,
    }
}
