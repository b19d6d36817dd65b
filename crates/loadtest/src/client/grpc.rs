//! A client of Envoy's rate limit service over gRPC.

use std::error::Error as _;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use ::http::{Request, Response, Uri};
use envoy_types::pb::envoy::extensions::common::ratelimit::v3::{RateLimitDescriptor, rate_limit_descriptor::Entry};
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::Code as OverallCode;
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_service_client::RateLimitServiceClient;
use envoy_types::pb::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tonic::metadata::{Ascii, MetadataValue};
use tonic::{Code, Status};
use tower::Service;

use super::{ConnectionLost, RequestError, Verdict, excerpt};
use crate::run::RequestTemplate;
use crate::target::IoStream;

/// A connection with HTTP/2, one request at a time.
pub(crate) struct GrpcConnection {
    client: RateLimitServiceClient<Sender>,
    token: Option<MetadataValue<Ascii>>,
    domain: String,
    descriptor: String,
    cost: u32,
}

impl GrpcConnection {
    pub(super) async fn from_stream(stream: IoStream, template: &RequestTemplate) -> Result<Self, ConnectionLost> {
        let lost = |error: &dyn std::fmt::Display| ConnectionLost(error.to_string());
        let handshake = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
        let (sender, connection) = handshake.map_err(|error| lost(&error))?;
        // The pending request reports its end.
        tokio::spawn(connection);
        let origin: Uri = format!("http://{}", template.authority).parse().map_err(|error| lost(&error))?;
        let token = template.token.as_ref().map(|token| [b"Bearer ", token.as_bytes()].concat());
        let token = token.map(|token| MetadataValue::try_from(&token[..])).transpose().map_err(|error| lost(&error))?;
        Ok(GrpcConnection {
            client: RateLimitServiceClient::with_origin(Sender(sender), origin),
            token,
            domain: template.domain.clone(),
            descriptor: template.descriptor.clone(),
            cost: template.cost,
        })
    }

    pub(super) async fn send(&mut self, key: u64) -> Result<Verdict, ConnectionLost> {
        let entry = Entry { key: self.descriptor.clone(), value: format!("bench-{key}") };
        let descriptor = RateLimitDescriptor { entries: vec![entry], ..RateLimitDescriptor::default() };
        let mut request = tonic::Request::new(RateLimitRequest {
            domain: self.domain.clone(),
            descriptors: vec![descriptor],
            hits_addend: self.cost,
        });
        if let Some(token) = &self.token {
            request.metadata_mut().insert("authorization", token.clone());
        }
        match self.client.should_rate_limit(request).await {
            Ok(response) => Ok(verdict(response.get_ref())),
            // A status from the server has no source. Other errors concern the connection.
            Err(status) if status.source().is_some() => Err(ConnectionLost(status.message().to_owned())),
            Err(status) => Ok(Verdict::Failed(Box::new(request_error(&status)))),
        }
    }
}

fn verdict(response: &RateLimitResponse) -> Verdict {
    let matched = response.statuses.iter().any(|status| status.current_limit.is_some() || status.limit_remaining > 0);
    match response.overall_code() {
        OverallCode::Ok if !matched => Verdict::Unmatched,
        OverallCode::Ok => Verdict::Allowed,
        OverallCode::OverLimit => Verdict::Denied,
        OverallCode::Unknown => {
            let message = "an answer that is neither OK nor OVER_LIMIT".to_owned();
            Verdict::Failed(Box::new(RequestError { kind: "no verdict".to_owned(), message, is_transient: false }))
        }
    }
}

fn request_error(status: &Status) -> RequestError {
    let is_transient = matches!(
        status.code(),
        Code::Aborted | Code::Cancelled | Code::DeadlineExceeded | Code::ResourceExhausted | Code::Unavailable
    );
    RequestError { kind: format!("gRPC {:?}", status.code()), message: excerpt(status.message()), is_transient }
}

/// A connection in the form that a tonic client needs.
#[derive(Clone)]
struct Sender(SendRequest<tonic::body::Body>);

impl Service<Request<tonic::body::Body>> for Sender {
    type Response = Response<Incoming>;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), hyper::Error>> {
        // The request reports a broken connection. From here, tonic would create a status without a source.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<tonic::body::Body>) -> Self::Future {
        Box::pin(self.0.send_request(request))
    }
}
