#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

use std::future::{Future, Ready, ready};
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use actix_web::body::{BodySize, EitherBody, MessageBody};
use actix_web::dev::{Service, ServiceRequest, ServiceResponse, Transform};
use actix_web::http::header as actix;
use actix_web::web::Bytes;
use actix_web::{Error, HttpMessage, HttpResponse, HttpResponseBuilder};
use http::{Extensions, HeaderMap, Response, StatusCode};
use pin_project_lite::pin_project;
use tidegate::http::adapter::{OwnedHead, changed_headers, header_map};
use tidegate::http::{Gate, InFlight};

/// A [`Gate`] as actix-web's middleware: of an app, a scope or a resource. Clones share limits and permits.
#[derive(Debug, Clone)]
pub struct GateMiddleware(Gate);

impl GateMiddleware {
    /// Puts a gate in front of a service. Accepts everything that converts into a gate: `limiter.enforcer("api")?`, a
    /// bare quota, a [`RateLimit`](tidegate::http::RateLimit).
    ///
    /// Create it outside of the app's factory, which runs once for each worker, and clone it there.
    pub fn new(gate: impl Into<Gate>) -> Self {
        GateMiddleware(gate.into())
    }
}

impl<S, B> Transform<S, ServiceRequest> for GateMiddleware
where
    S: Service<ServiceRequest, Response = ServiceResponse<B>, Error = Error> + 'static,
    B: MessageBody + 'static,
{
    type Response = ServiceResponse<EitherBody<GateBody<B>>>;
    type Error = Error;
    type Transform = GateService<S>;
    type InitError = ();
    type Future = Ready<Result<GateService<S>, ()>>;

    fn new_transform(&self, service: S) -> Self::Future {
        ready(Ok(GateService { service: Rc::new(service), gate: self.0.clone() }))
    }
}

/// A service behind a [`GateMiddleware`].
#[derive(Debug)]
pub struct GateService<S> {
    service: Rc<S>,
    gate: Gate,
}

impl<S, B> Service<ServiceRequest> for GateService<S>
where
    S: Service<ServiceRequest, Response = ServiceResponse<B>, Error = Error> + 'static,
    B: MessageBody + 'static,
{
    type Response = ServiceResponse<EitherBody<GateBody<B>>>;
    type Error = Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Error>>>>;

    fn poll_ready(&self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.service.poll_ready(context)
    }

    fn call(&self, request: ServiceRequest) -> Self::Future {
        let extensions = request.extensions().get::<Extensions>().cloned().unwrap_or_default();
        let headers = copy_headers(request.headers());
        let head = OwnedHead::new(request.method().as_str(), &request.uri().to_string(), headers, extensions);
        // The peer of the connection. `ConnectionInfo` would believe headers that any client can send.
        let (peer, route) = (request.peer_addr().as_ref().map(SocketAddr::ip), request.match_pattern());
        let entering = self.gate.admit(&head.as_request_head(peer, route.as_deref()));
        let service = Rc::clone(&self.service);
        Box::pin(async move {
            let admitted = match entering.await {
                Ok(admitted) => admitted,
                Err(answer) => return Ok(request.into_response(rejection(answer)).map_into_right_body()),
            };
            if let Some(outcome) = admitted.outcome() {
                request.extensions_mut().insert(outcome.clone());
            }
            let mut response = match service.call(request).await {
                Ok(response) => response,
                // Only other middlewares fail like this. A handler's error is a response by now.
                Err(error) => {
                    let status = error.as_response_error().status_code();
                    drop(admitted.finish(to_status(status), &mut HeaderMap::new(), None).await);
                    return Err(error);
                }
            };
            let length = match response.response().body().size() {
                BodySize::None => Some(0),
                BodySize::Sized(length) => Some(length),
                BodySize::Stream => None,
            };
            let before = copy_headers(response.headers());
            let mut after = before.clone();
            let in_flight = admitted.finish(to_status(response.status()), &mut after, length).await;
            for (name, values) in changed_headers(&before, &after) {
                response.headers_mut().remove(name.as_str());
                values.iter().for_each(|value| append_header(response.headers_mut(), name, value));
            }
            Ok(response.map_body(|_, body| EitherBody::left(GateBody { body, in_flight })))
        })
    }
}

// actix-web is on version 0.2 of the crate `http`, so heads and statuses are copied.

fn copy_headers(headers: &actix::HeaderMap) -> HeaderMap {
    header_map(headers.iter().map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes())))
}

fn append_header(headers: &mut actix::HeaderMap, name: &http::HeaderName, value: &http::HeaderValue) {
    let name = actix::HeaderName::from_bytes(name.as_str().as_bytes());
    if let (Ok(name), Ok(value)) = (name, actix::HeaderValue::from_bytes(value.as_bytes())) {
        headers.append(name, value);
    }
}

fn to_status(status: actix_web::http::StatusCode) -> StatusCode {
    StatusCode::from_u16(status.as_u16()).unwrap_or_default()
}

fn rejection(answer: Response<String>) -> HttpResponse {
    let (head, body) = answer.into_parts();
    let status = actix_web::http::StatusCode::from_u16(head.status.as_u16()).unwrap_or_default();
    let mut response = HttpResponseBuilder::new(status).body(body);
    for (name, value) in &head.headers {
        append_header(response.headers_mut(), name, value);
    }
    response
}

pin_project! {
    /// The body of a response behind a [`GateMiddleware`]. The request is in flight until it ends.
    #[derive(Debug)]
    pub struct GateBody<B> {
        #[pin]
        body: B,
        in_flight: InFlight,
    }
}

impl<B: MessageBody> MessageBody for GateBody<B> {
    type Error = B::Error;

    fn size(&self) -> BodySize {
        self.body.size()
    }

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, B::Error>>> {
        let this = self.project();
        let piece = ready!(this.body.poll_next(context));
        match &piece {
            None => this.in_flight.end(),
            Some(Ok(piece)) => this.in_flight.record_chunk(piece.len() as u64),
            Some(Err(_)) => this.in_flight.fail(),
        }
        Poll::Ready(piece)
    }
}
