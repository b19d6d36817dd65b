//! A [`Gate`] is a middleware of poem: of an app, a route or an endpoint.
//!
//! ```
//! use poem::{EndpointExt, Route, endpoint::make_sync};
//! use tidegate::http::Gate;
//! use tidegate::{Limiter, Quota, seconds};
//!
//! let limiter = Limiter::builder().limit("api", Quota::token_bucket(10, seconds(1))?).build()?;
//! let app = Route::new().at("/", make_sync(|_| "Hello!")).with(Gate::new((&limiter, "api")));
//! # let _ = app;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Around a whole router, the gate does not know the route yet; around an endpoint, it does. A handler gets an [`Outcome`]
//! where the gate [hands it over](crate::http::RateLimit::extension).

use http_body::Body as _;
use http_body_util::combinators::BoxBody;
use poem::http::StatusCode;
use poem::{Endpoint, Error, FromRequest, IntoResponse, Middleware, PathPattern, Request, RequestBody, Response};

use crate::enforce::Outcome;
use crate::http::{Gate, Incoming, to_method};
use crate::tower::admission::ResponseBody;

impl<E: Endpoint> Middleware<E> for Gate {
    type Output = Gated<E>;

    fn transform(&self, endpoint: E) -> Gated<E> {
        Gated { endpoint, gate: self.clone() }
    }
}

/// An endpoint behind a [`Gate`].
#[derive(Debug)]
pub struct Gated<E> {
    endpoint: E,
    gate: Gate,
}

impl<E: Endpoint> Endpoint for Gated<E> {
    type Output = Response;

    async fn call(&self, mut request: Request) -> poem::Result<Response> {
        let entering = self.gate.enter(&incoming(&request));
        let passage = match entering.await {
            Ok(passage) => passage,
            Err(answer) => {
                let (head, body) = to_method(request.method(), answer).into_parts();
                let mut response = Response::builder().status(head.status).body(body);
                *response.headers_mut() = head.headers;
                return Ok(response);
            }
        };
        passage.tell_handler(request.extensions_mut());
        // What an endpoint fails with is a response like any other to whoever counts it.
        let mut response = match self.endpoint.call(request).await {
            Ok(response) => response.into_response(),
            Err(error) => error.into_response(),
        };
        let body = BoxBody::from(response.take_body());
        let (status, length) = (response.status(), body.size_hint().exact());
        let in_flight = passage.conclude(status, response.headers_mut(), length).await;
        let body = if in_flight.is_over() { body } else { BoxBody::new(ResponseBody::new(body, in_flight)) };
        response.set_body(body);
        Ok(response)
    }
}

fn incoming(request: &Request) -> Incoming<'_> {
    let peer = request.remote_addr().as_socket_addr().map(|address| address.ip());
    Incoming::new(request.method(), request.uri(), request.headers(), request.extensions())
        .with_peer(peer)
        .with_route(request.data::<PathPattern>().map(|pattern| &*pattern.0))
}

/// A handler gets what was decided about its request, where the gate [hands it over](crate::http::RateLimit::extension).
impl<'a> FromRequest<'a> for Outcome {
    async fn from_request(request: &'a Request, _: &mut RequestBody) -> poem::Result<Self> {
        let missing = || Error::from_string(super::NOT_HANDED_OVER, StatusCode::INTERNAL_SERVER_ERROR);
        request.data::<Outcome>().cloned().ok_or_else(missing)
    }
}
