//! A [`Gate`] is a hoop of salvo: of a service or a router.
//!
//! ```
//! use salvo_core::prelude::{Router, handler}; // `salvo::prelude` has the same
//! use tidegate::http::Gate;
//! use tidegate::{Limiter, Quota, seconds};
//!
//! #[handler]
//! async fn hello() -> &'static str {
//!     "Hello!"
//! }
//!
//! let limiter = Limiter::builder().limit("api", Quota::token_bucket(10, seconds(1))?).build()?;
//! let router = Router::new().hoop(Gate::new((&limiter, "api"))).get(hello);
//! # let _ = router;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A handler finds the [`Outcome`](crate::enforce::Outcome) among the extensions of its request where the gate
//! [hands it over](crate::http::RateLimit::extension).

use http_body_util::BodyExt;
use salvo_core::http::{ResBody, StatusCode};
use salvo_core::{Depot, FlowCtrl, Handler, Request, Response, async_trait};

use crate::http::{Gate, Incoming, to_method};
use crate::tower::admission::ResponseBody;

#[async_trait]
impl Handler for Gate {
    async fn handle(&self, request: &mut Request, depot: &mut Depot, response: &mut Response, flow: &mut FlowCtrl) {
        let entering = self.enter(&incoming(request));
        let passage = match entering.await {
            Ok(passage) => passage,
            Err(answer) => {
                let (head, body) = to_method(request.method(), answer).into_parts();
                response.status_code(head.status).body(body);
                // What outer hoops have said stays.
                response.headers_mut().extend(head.headers);
                flow.skip_rest();
                return;
            }
        };
        passage.tell_handler(request.extensions_mut());
        flow.call_next(request, depot, response).await;
        let body = response.take_body();
        // What nobody has answered will be a 404 that the service's catcher makes.
        let unanswered = if body.is_none() { StatusCode::NOT_FOUND } else { StatusCode::OK };
        let status = response.status_code.unwrap_or(unanswered);
        // Nor is an error a body yet: the catcher makes one.
        let length = if body.is_error() { Some(0) } else { body.size() };
        let in_flight = passage.conclude(status, response.headers_mut(), length).await;
        response.body(match in_flight.is_over() {
            true => body,
            false => ResBody::Boxed(Box::pin(ResponseBody::new(body, in_flight).map_err(Into::into))),
        });
    }
}

fn incoming(request: &Request) -> Incoming<'_> {
    let peer = request.remote_addr().ip();
    let route = Some(request.matched_path()).filter(|route| !route.is_empty());
    Incoming::new(request.method(), request.uri(), request.headers(), request.extensions())
        .with_peer(peer)
        .with_route(route)
}
