//! Envoy's rate limit service, v3: decodes its requests and encodes the decisions.

use std::sync::Arc;

use envoy_types::pb::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use envoy_types::pb::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::RateLimitOverride;
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::rate_limit::Unit as WireUnit;
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::{
    Code as WireCode, DescriptorStatus as WireStatus, RateLimit,
};
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_service_server::RateLimitService;
use envoy_types::pb::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use envoy_types::pb::envoy::r#type::v3::RateLimitUnit;
use envoy_types::pb::google::protobuf::Duration;
use tidegate::config::envoy::{Override, Unit};
use tidegate::{Error, ceil_seconds};
use tonic::{Request, Response, Status};

use crate::app::App;
use crate::doors::envoy::{Code, DescriptorRequest, DescriptorStatus, Hits, check_descriptor_count, decide_active};

/// The service of the router; the fast path does without it.
pub(crate) struct RateLimits {
    app: Arc<App>,
}

impl RateLimits {
    pub(super) fn new(app: Arc<App>) -> Self {
        RateLimits { app }
    }
}

#[tonic::async_trait]
impl RateLimitService for RateLimits {
    async fn should_rate_limit(
        &self,
        request: Request<RateLimitRequest>,
    ) -> Result<Response<RateLimitResponse>, Status> {
        decide(&self.app, request.get_ref()).await.map(Response::new)
    }
}

/// Decides about a request.
pub(super) async fn decide(app: &App, request: &RateLimitRequest) -> Result<RateLimitResponse, Status> {
    check_descriptor_count(&request.domain, request.descriptors.len()).map_err(Status::unknown)?;
    let descriptors = request.descriptors.iter().map(|wire| descriptor(wire, request.hits_addend));
    let descriptors = descriptors.collect::<Result<Vec<_>, _>>()?;
    let verdict = decide_active(app, &request.domain, &descriptors).await.map_err(|error| error_status(&error))?;
    Ok(RateLimitResponse {
        overall_code: wire_code(verdict.code),
        statuses: verdict.statuses.into_iter().map(wire_status).collect(),
        ..RateLimitResponse::default()
    })
}

fn descriptor(wire: &RateLimitDescriptor, hits: u32) -> Result<DescriptorRequest<'_>, Status> {
    let own = wire.hits_addend.as_ref().map(|hits| hits.value);
    Ok(DescriptorRequest {
        entries: wire.entries.iter().map(|entry| (&*entry.key, &*entry.value)).collect(),
        limit: wire.limit.as_ref().map(limit_override).transpose()?,
        hits: Hits::new(own, wire.is_negative_hits, hits),
    })
}

fn limit_override(limit: &RateLimitOverride) -> Result<Override, Status> {
    let unit = match limit.unit() {
        RateLimitUnit::Unknown => return Err(Status::unknown("the unit of a limit override is not known")),
        RateLimitUnit::Second => Unit::Second,
        RateLimitUnit::Minute => Unit::Minute,
        RateLimitUnit::Hour => Unit::Hour,
        RateLimitUnit::Day => Unit::Day,
        RateLimitUnit::Month => Unit::Month,
        RateLimitUnit::Year => Unit::Year,
    };
    Ok(Override { requests_per_unit: limit.requests_per_unit, unit })
}

/// Maps an error to a status. Envoy's own settings say what it does then.
fn error_status(error: &Error) -> Status {
    match error {
        Error::UnknownLimit(_) => Status::internal(error.to_string()),
        error if error.is_misuse() => Status::invalid_argument(error.to_string()),
        // As over HTTP, without the message of the store.
        Error::Store(store) => Status::unavailable(store.kind().description()),
        error => Status::unavailable(error.to_string()),
    }
}

fn wire_code(code: Code) -> i32 {
    let code = match code {
        Code::Ok => WireCode::Ok,
        Code::OverLimit => WireCode::OverLimit,
    };
    code.into()
}

fn wire_status(status: DescriptorStatus) -> WireStatus {
    let until_reset = status.until_reset();
    WireStatus {
        code: wire_code(status.code),
        current_limit: status.limit.map(|limit| RateLimit {
            name: limit.name,
            requests_per_unit: limit.requests_per_unit,
            unit: wire_unit(limit.unit).into(),
        }),
        limit_remaining: status.remaining,
        // Whole seconds, rounded up: Envoy passes on only the seconds.
        duration_until_reset: until_reset
            .map(|reset| Duration { seconds: i64::try_from(ceil_seconds(reset)).unwrap_or(i64::MAX), nanos: 0 }),
        ..WireStatus::default()
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
