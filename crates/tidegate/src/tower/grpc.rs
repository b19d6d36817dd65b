//! gRPC responses of the `tower` layers, for tonic's servers, unary and streaming.
//!
//! ```
//! use tidegate::grpc::GrpcFormat;
//! use tidegate::http::{RateLimit, keys};
//! use tidegate::tower::RateLimitLayer;
//! use tidegate::{Quota, seconds};
//!
//! // Ten calls a second to each method for each client.
//! let per_method = RateLimit::new(Quota::token_bucket(10, seconds(1))?).key(keys::both(keys::client(), keys::path()));
//! let layer = RateLimitLayer::new(per_method).with_format(GrpcFormat);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The layer goes in front of all services of a server (`Server::builder().layer(layer)`). Or it goes in front of one
//! service, and other calls never reach it: `add_service(layer.layer(GreeterServer::new(greeter)))`.
//!
//! A rejected call gets a status without a message (trailers only):
//!
//! | status | reason |
//! | --- | --- |
//! | `RESOURCE_EXHAUSTED`, with `RetryInfo`, `QuotaFailure` and `grpc-retry-pushback-ms` | a limit denies the call |
//! | `FAILED_PRECONDITION` | the cost is above the capacity, so no retry helps |
//! | `PERMISSION_DENIED` | a deny list has the client |
//! | `UNAVAILABLE` | the store is broken and the limit fails closed |
//! | `UNAVAILABLE`, with `RetryInfo` | too many calls are in flight |
//! | `INVALID_ARGUMENT` | the cost is invalid |
//! | `INTERNAL` | the program has made another mistake |
//!
//! A request that is not a call, because its method is not `POST`, also gets the HTTP status.

use http::{HeaderMap, Method, Response};
use tidegate_core::ceil_millis;
use tonic::metadata::AsciiMetadataValue;
use tonic::server::NamedService;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, QuotaViolation, StatusExt};

use crate::Error;
use crate::concurrency::{RejectReason, Rejected};
use crate::enforce::{LimitDecisions, Outcome};
use crate::http::RateLimit;
use crate::tower::admission::AdmissionService;
use crate::tower::{RateLimitService, ResponseFormat};

const PUSHBACK: &str = "grpc-retry-pushback-ms";

/// The format of gRPC: a status in the trailers. Admitted calls get no headers of limits.
#[derive(Debug, Clone, Copy, Default)]
pub struct GrpcFormat;

impl<B: Default> ResponseFormat<B> for GrpcFormat {
    fn denial(&self, rate_limit: &RateLimit, outcome: &Outcome, method: &Method) -> Response<B> {
        let mut response = status(outcome).into_http();
        // A plain HTTP request, such as a probe of `/healthz`, does not read the status in the trailers.
        if *method != Method::POST {
            *response.status_mut() = rate_limit.response(outcome).status();
        }
        response
    }

    fn write_headers(&self, _: &RateLimit, _: &Outcome, _: &mut HeaderMap) {}
}

/// A service behind limits keeps its name, so that one of several services of a server can have its own layer.
impl<S: NamedService, F> NamedService for RateLimitService<S, F> {
    const NAME: &'static str = S::NAME;
}

/// An admission service keeps the name of its inner service, too.
impl<S: NamedService, F> NamedService for AdmissionService<S, F> {
    const NAME: &'static str = S::NAME;
}

/// Returns the status of an outcome that is not an admission, with its details.
pub fn status(outcome: &Outcome) -> Status {
    match outcome {
        Outcome::Allowed(_) => Status::ok(""),
        Outcome::Limited(limit_decisions) => limited_status(limit_decisions),
        Outcome::Overloaded(rejected) => overloaded_status(rejected),
        Outcome::Denied(_) => Status::permission_denied("this client is not admitted"),
        Outcome::Unavailable(_) => Status::unavailable("the limit of this call cannot be asked at the moment"),
        Outcome::Invalid(Error::InvalidCost(error)) => Status::invalid_argument(error.to_string()),
        Outcome::Invalid(_) => Status::internal("a limit could not be applied to this call"),
    }
}

/// Converts the error of a function with `#[limit]` that returns a status.
#[cfg(feature = "macros")]
impl From<crate::attribute::LimitError> for Status {
    fn from(error: crate::attribute::LimitError) -> Self {
        status(error.outcome())
    }
}

fn overloaded_status(rejected: &Rejected) -> Status {
    let details = ErrorDetails::with_retry_info(Some(rejected.retry_after()));
    let message = match rejected.reason() {
        RejectReason::Busy => "as many calls are worked on as can be",
        RejectReason::QueueFull => "as many calls are worked on as can be, and as many wait as may",
        RejectReason::TooLong => "as many calls are worked on as can be, and the turn of this one did not come in time",
    };
    let mut status = Status::with_error_details(Code::Unavailable, message, details);
    status.metadata_mut().insert(PUSHBACK, ceil_millis(rejected.retry_after()).into());
    status
}

fn limited_status(limit_decisions: &LimitDecisions) -> Status {
    let never = limit_decisions.never_pass();
    let violations = limit_decisions
        .violated()
        .map(|limit| QuotaViolation::new(limit.policy(), format!("at most {} at once", limit.decision().limit())));
    let mut details = ErrorDetails::with_quota_failure(violations.collect::<Vec<_>>());
    if let Some(wait) = limit_decisions.retry_after() {
        details.set_retry_info(Some(wait));
    }
    let (code, message) = match never {
        true => (Code::FailedPrecondition, "the call costs more than its whole quota"),
        false => (Code::ResourceExhausted, "quota exceeded"),
    };
    let mut status = Status::with_error_details(code, message, details);
    let pushback = match limit_decisions.retry_after() {
        Some(wait) => Some(ceil_millis(wait).into()),
        // A negative pushback stops automatic retries.
        None if never => Some(AsciiMetadataValue::from_static("-1")),
        // The cost exceeds the local share of a broken store's quota. The time of recovery is unknown.
        None => None,
    };
    pushback.and_then(|pushback| status.metadata_mut().insert(PUSHBACK, pushback));
    status
}
