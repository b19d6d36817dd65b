//! Envoy's rate limit service.

use std::error::Error as _;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use ::http::{Request, Response, Uri};
use envoy_types::pb::envoy::extensions::common::ratelimit::v3::{RateLimitDescriptor, rate_limit_descriptor::Entry};
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::Code as Verdict;
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_service_client::RateLimitServiceClient;
use envoy_types::pb::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tonic::metadata::{Ascii, MetadataValue};
use tonic::{Code, Status};
use tower::Service;

use super::{Answer, Lost, Refusal, words};
use crate::bench::dial::Wire;
use crate::bench::plan::Question;

/// A connection with HTTP/2, one request at a time.
pub(in crate::bench) struct Grpc {
    client: RateLimitServiceClient<Sender>,
    token: Option<MetadataValue<Ascii>>,
    domain: String,
    descriptor: String,
    cost: u32,
}

impl Grpc {
    pub(super) async fn over(wire: Wire, question: &Question) -> Result<Self, Lost> {
        let wrong = |error: &dyn std::fmt::Display| Lost(error.to_string());
        let handshake = http2::handshake(TokioExecutor::new(), TokioIo::new(wire)).await;
        let (sender, connection) = handshake.map_err(|error| wrong(&error))?;
        // Whoever waits for an answer hears of its end.
        tokio::spawn(connection);
        let origin: Uri = format!("http://{}", question.authority).parse().map_err(|error| wrong(&error))?;
        let token = question.token.as_ref().map(|token| [b"Bearer ", token.as_bytes()].concat());
        let token =
            token.map(|token| MetadataValue::try_from(&token[..])).transpose().map_err(|error| wrong(&error))?;
        Ok(Grpc {
            client: RateLimitServiceClient::with_origin(Sender(sender), origin),
            token,
            domain: question.domain.clone(),
            descriptor: question.descriptor.clone(),
            cost: question.cost,
        })
    }

    pub(super) async fn ask(&mut self, key: u64) -> Result<Answer, Lost> {
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
            // What a server says comes from nowhere else: everything else is about the connection.
            Err(status) if status.source().is_some() => Err(Lost(status.message().to_owned())),
            Err(status) => Ok(Answer::Refused(Box::new(refusal(&status)))),
        }
    }
}

fn verdict(response: &RateLimitResponse) -> Answer {
    let matched = response.statuses.iter().any(|status| status.current_limit.is_some() || status.limit_remaining > 0);
    match response.overall_code() {
        Verdict::Ok if !matched => Answer::Unmatched,
        Verdict::Ok => Answer::Allowed,
        Verdict::OverLimit => Answer::Denied,
        Verdict::Unknown => {
            let message = "an answer that is neither OK nor OVER_LIMIT".to_owned();
            Answer::Refused(Box::new(Refusal { kind: "no verdict".to_owned(), message, passing: false }))
        }
    }
}

fn refusal(status: &Status) -> Refusal {
    let passing = matches!(
        status.code(),
        Code::Aborted | Code::Cancelled | Code::DeadlineExceeded | Code::ResourceExhausted | Code::Unavailable
    );
    Refusal { kind: format!("gRPC {:?}", status.code()), message: words(status.message()), passing }
}

/// A connection, as tonic wants it.
#[derive(Clone)]
struct Sender(SendRequest<tonic::body::Body>);

impl Service<Request<tonic::body::Body>> for Sender {
    type Response = Response<Incoming>;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), hyper::Error>> {
        // What is wrong with a connection is told by the request: tonic would make a status without a source of it here.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<tonic::body::Body>) -> Self::Future {
        Box::pin(self.0.send_request(request))
    }
}
