//! A [`Gate`](crate::http::Gate) is a middleware of actix-web: of an app, a scope or a resource.
//!
//! ```
//! use actix_web::{App, web};
//! use tidegate::http::Gate;
//! use tidegate::{Limiter, Quota, minutes, seconds};
//!
//! # fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let limiter = Limiter::builder()
//!     .limit("api", Quota::token_bucket(10, seconds(1))?)
//!     .limit("login", Quota::fixed_window(5, minutes(1))?)
//!     .build()?;
//! // Made outside of the factory, which runs once for each worker: they share it.
//! let (api, login) = (Gate::new((&limiter, "api")), Gate::new((&limiter, "login")));
//! let app = move || {
//!     App::new()
//!         .wrap(api.clone())
//!         .service(web::resource("/login").wrap(login.clone()).to(async || "Welcome!"))
//! };
//! # let _ = app();
//! # Ok(()) }
//! ```
//!
//! The peer is that of the connection, and never what actix-web's `ConnectionInfo` takes from headers: see
//! [`ClientAddress`](crate::http::ClientAddress). A handler gets an [`Outcome`] where the gate
//! [hands it over](crate::http::RateLimit::extension). What an outer middleware knows about a request it puts into a
//! [`tidegate::http::Extensions`](crate::http::Extensions) among actix-web's own, where
//! [`keys::extension`](crate::http::keys::extension) finds it.
//!
//! actix-web has types of its own for the heads of requests and responses, which are copied for what is to be decided.

use std::future::{Future, Ready, ready};
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use actix_web::body::{BodySize, EitherBody, MessageBody};
use actix_web::dev::{Payload, Service, ServiceRequest, ServiceResponse, Transform};
use actix_web::http::header as actix;
use actix_web::web::Bytes;
use actix_web::{Error, FromRequest, HttpMessage, HttpRequest, HttpResponse, HttpResponseBuilder, error};
use http::{Extensions, HeaderMap, Response, StatusCode};
use pin_project_lite::pin_project;

use crate::enforce::Outcome;
use crate::http::foreign::{self, Head};
use crate::http::{Gate, InFlight};

impl<S, B> Transform<S, ServiceRequest> for Gate
where
    S: Service<ServiceRequest, Response = ServiceResponse<B>, Error = Error> + 'static,
    B: MessageBody + 'static,
{
    type Response = ServiceResponse<EitherBody<ResponseBody<B>>>;
    type Error = Error;
    type Transform = Gated<S>;
    type InitError = ();
    type Future = Ready<Result<Gated<S>, ()>>;

    fn new_transform(&self, service: S) -> Self::Future {
        ready(Ok(Gated { service: Rc::new(service), gate: self.clone() }))
    }
}

/// A service behind a [`Gate`].
#[derive(Debug)]
pub struct Gated<S> {
    service: Rc<S>,
    gate: Gate,
}

impl<S, B> Service<ServiceRequest> for Gated<S>
where
    S: Service<ServiceRequest, Response = ServiceResponse<B>, Error = Error> + 'static,
    B: MessageBody + 'static,
{
    type Response = ServiceResponse<EitherBody<ResponseBody<B>>>;
    type Error = Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Error>>>>;

    fn poll_ready(&self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.service.poll_ready(context)
    }

    fn call(&self, request: ServiceRequest) -> Self::Future {
        let extensions = request.extensions().get::<Extensions>().cloned().unwrap_or_default();
        let head =
            Head::new(request.method().as_str(), &request.uri().to_string(), headers(request.headers()), extensions);
        let (peer, route) = (request.peer_addr().as_ref().map(SocketAddr::ip), request.match_pattern());
        let entering = self.gate.enter(&head.incoming(peer, route.as_deref()));
        let service = Rc::clone(&self.service);
        Box::pin(async move {
            let passage = match entering.await {
                Ok(passage) => passage,
                Err(answer) => return Ok(request.into_response(response(answer)).map_into_right_body()),
            };
            if let Some(outcome) = passage.told() {
                request.extensions_mut().insert(outcome.clone());
            }
            let mut response = match service.call(request).await {
                Ok(response) => response,
                // Only from other middlewares: what a handler fails with is a response by now.
                Err(error) => {
                    let status = error.as_response_error().status_code();
                    drop(passage.conclude(status_of(status), &mut HeaderMap::new(), None).await);
                    return Err(error);
                }
            };
            let length = match response.response().body().size() {
                BodySize::None => Some(0),
                BodySize::Sized(length) => Some(length),
                BodySize::Stream => None,
            };
            let before = headers(response.headers());
            let mut after = before.clone();
            let in_flight = passage.conclude(status_of(response.status()), &mut after, length).await;
            for (name, values) in foreign::changed(&before, &after) {
                response.headers_mut().remove(name.as_str());
                values.iter().for_each(|value| append(response.headers_mut(), name, value));
            }
            Ok(response.map_body(|_, body| EitherBody::left(ResponseBody { body, in_flight })))
        })
    }
}

fn headers(headers: &actix::HeaderMap) -> HeaderMap {
    foreign::headers(headers.iter().map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes())))
}

fn append(headers: &mut actix::HeaderMap, name: &http::HeaderName, value: &http::HeaderValue) {
    let name = actix::HeaderName::from_bytes(name.as_str().as_bytes());
    if let (Ok(name), Ok(value)) = (name, actix::HeaderValue::from_bytes(value.as_bytes())) {
        headers.append(name, value);
    }
}

fn status_of(status: actix_web::http::StatusCode) -> StatusCode {
    StatusCode::from_u16(status.as_u16()).unwrap_or_default()
}

fn response(answer: Response<String>) -> HttpResponse {
    let (head, body) = answer.into_parts();
    let status = actix_web::http::StatusCode::from_u16(head.status.as_u16()).unwrap_or_default();
    let mut response = HttpResponseBuilder::new(status).body(body);
    for (name, value) in &head.headers {
        append(response.headers_mut(), name, value);
    }
    response
}

pin_project! {
    /// The body of a response behind a [`Gate`]: the request is in flight until it ends.
    #[derive(Debug)]
    pub struct ResponseBody<B> {
        #[pin]
        body: B,
        in_flight: InFlight,
    }
}

impl<B: MessageBody> MessageBody for ResponseBody<B> {
    type Error = B::Error;

    fn size(&self) -> BodySize {
        self.body.size()
    }

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, B::Error>>> {
        let this = self.project();
        let piece = ready!(this.body.poll_next(context));
        match &piece {
            None => this.in_flight.end(),
            Some(Ok(piece)) => this.in_flight.hand_over(piece.len() as u64),
            Some(Err(_)) => this.in_flight.fail(),
        }
        Poll::Ready(piece)
    }
}

/// A handler gets what was decided about its request, where the gate [hands it over](crate::http::RateLimit::extension).
impl FromRequest for Outcome {
    type Error = Error;
    type Future = Ready<Result<Self, Error>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        let outcome = request.extensions().get::<Outcome>().cloned();
        ready(outcome.ok_or_else(|| error::ErrorInternalServerError(super::NOT_HANDED_OVER)))
    }
}
