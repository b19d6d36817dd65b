#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

use http_body_util::BodyExt;
use salvo_core::http::{ResBody, StatusCode};
use salvo_core::{Depot, FlowCtrl, Handler, Request, Response, async_trait};
use tidegate::http::adapter::strip_head_body;
use tidegate::http::{Gate, RequestHead};
use tidegate::tower::admission::ResponseBody;

/// A [`Gate`] as salvo's hoop: of a service or a router. Clones share limits and permits.
#[derive(Debug, Clone)]
pub struct GateHoop(Gate);

impl GateHoop {
    /// Puts a gate in front of handlers. Accepts everything that converts into a gate: `limiter.enforcer("api")?`, a
    /// bare quota, a [`RateLimit`](tidegate::http::RateLimit).
    pub fn new(gate: impl Into<Gate>) -> Self {
        GateHoop(gate.into())
    }
}

#[async_trait]
impl Handler for GateHoop {
    async fn handle(&self, request: &mut Request, depot: &mut Depot, response: &mut Response, flow: &mut FlowCtrl) {
        let entering = self.0.admit(&request_head(request));
        let admitted = match entering.await {
            Ok(admitted) => admitted,
            Err(answer) => {
                let (head, body) = strip_head_body(request.method(), answer).into_parts();
                response.status_code(head.status).body(body);
                // Headers of outer hoops stay.
                response.headers_mut().extend(head.headers);
                flow.skip_rest();
                return;
            }
        };
        admitted.insert_outcome(request.extensions_mut());
        flow.call_next(request, depot, response).await;
        let body = response.take_body();
        // The service's catcher answers 404 to a request that no handler has answered.
        let unanswered = if body.is_none() { StatusCode::NOT_FOUND } else { StatusCode::OK };
        let status = response.status_code.unwrap_or(unanswered);
        // The catcher also creates the body of an error, so there is none yet.
        let length = if body.is_error() { Some(0) } else { body.size() };
        let in_flight = admitted.finish(status, response.headers_mut(), length).await;
        response.body(match in_flight.is_over() {
            true => body,
            false => ResBody::Boxed(Box::pin(ResponseBody::new(body, in_flight).map_err(Into::into))),
        });
    }
}

fn request_head(request: &Request) -> RequestHead<'_> {
    let peer = request.remote_addr().ip();
    let route = Some(request.matched_path()).filter(|route| !route.is_empty());
    RequestHead::new(request.method(), request.uri(), request.headers(), request.extensions())
        .with_peer(peer)
        .with_route(route)
}
