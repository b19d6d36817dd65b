#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

use http_body::Body as _;
use http_body_util::combinators::BoxBody;
use poem::{Endpoint, IntoResponse, Middleware, PathPattern, Request, Response};
use tidegate::http::adapter::strip_head_body;
use tidegate::http::{Gate, RequestHead};
use tidegate::tower::admission::ResponseBody;

/// A [`Gate`] as poem's middleware: of an app, a route or an endpoint. Clones share limits and permits.
#[derive(Debug, Clone)]
pub struct GateMiddleware(Gate);

impl GateMiddleware {
    /// Puts a gate in front of an endpoint. Accepts everything that converts into a gate: `limiter.enforcer("api")?`, a
    /// bare quota, a [`RateLimit`](tidegate::http::RateLimit).
    pub fn new(gate: impl Into<Gate>) -> Self {
        GateMiddleware(gate.into())
    }
}

impl<E: Endpoint> Middleware<E> for GateMiddleware {
    type Output = GateEndpoint<E>;

    fn transform(&self, endpoint: E) -> GateEndpoint<E> {
        GateEndpoint { endpoint, gate: self.0.clone() }
    }
}

/// An endpoint behind a [`GateMiddleware`].
#[derive(Debug)]
pub struct GateEndpoint<E> {
    endpoint: E,
    gate: Gate,
}

impl<E: Endpoint> Endpoint for GateEndpoint<E> {
    type Output = Response;

    async fn call(&self, mut request: Request) -> poem::Result<Response> {
        let entering = self.gate.admit(&request_head(&request));
        let admitted = match entering.await {
            Ok(admitted) => admitted,
            Err(answer) => {
                let (head, body) = strip_head_body(request.method(), answer).into_parts();
                let mut response = Response::builder().status(head.status).body(body);
                *response.headers_mut() = head.headers;
                return Ok(response);
            }
        };
        admitted.insert_outcome(request.extensions_mut());
        // An endpoint's error counts like any other response.
        let mut response = match self.endpoint.call(request).await {
            Ok(response) => response.into_response(),
            Err(error) => error.into_response(),
        };
        let body = BoxBody::from(response.take_body());
        let (status, length) = (response.status(), body.size_hint().exact());
        let in_flight = admitted.finish(status, response.headers_mut(), length).await;
        let body = if in_flight.is_over() { body } else { BoxBody::new(ResponseBody::new(body, in_flight)) };
        response.set_body(body);
        Ok(response)
    }
}

fn request_head(request: &Request) -> RequestHead<'_> {
    let peer = request.remote_addr().as_socket_addr().map(|address| address.ip());
    RequestHead::new(request.method(), request.uri(), request.headers(), request.extensions())
        .with_peer(peer)
        .with_route(request.data::<PathPattern>().map(|pattern| &*pattern.0))
}
