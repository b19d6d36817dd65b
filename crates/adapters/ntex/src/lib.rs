#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

use std::error::Error;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use ntex::http::body::{Body, BodySize, MessageBody, ResponseBody};
use ntex::http::header as ntex_header;
use ntex::util::Bytes;
use ntex::web::{HttpResponse, WebRequest, WebResponse};
use ntex::{Middleware, Service, ServiceCtx};
use tidegate::http::adapter::{changed_headers, header_map};
use tidegate::http::{Extensions, Gate, HeaderMap, InFlight, RequestHead};

/// A [`Gate`] as ntex's middleware: of an app, a scope or a resource. Clones share limits and permits.
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

impl<S, C> Middleware<S, C> for GateMiddleware {
    type Service = GateService<S>;

    fn create(&self, service: S, _: C) -> GateService<S> {
        GateService { service, gate: self.0.clone() }
    }
}

/// A service behind a [`GateMiddleware`].
#[derive(Debug)]
pub struct GateService<S> {
    service: S,
    gate: Gate,
}

impl<S, E> Service<WebRequest<E>> for GateService<S>
where
    S: Service<WebRequest<E>, Response = WebResponse>,
{
    type Response = WebResponse;
    type Error = S::Error;

    ntex::forward_poll!(service);
    ntex::forward_ready!(service);
    ntex::forward_shutdown!(service);

    async fn call(&self, request: WebRequest<E>, context: ServiceCtx<'_, Self>) -> Result<WebResponse, S::Error> {
        let entering = {
            let extensions = request.extensions().get::<Extensions>().cloned().unwrap_or_default();
            let (headers, peer) = (copy_headers(request.headers()), request.peer_addr().map(|peer| peer.ip()));
            self.gate.admit(&RequestHead::new(request.method(), request.uri(), &headers, &extensions).with_peer(peer))
        };
        let admitted = match entering.await {
            Ok(admitted) => admitted,
            Err(answer) => {
                let (head, body) = answer.into_parts();
                let mut response = HttpResponse::build(head.status).body(body);
                write_changes(&HeaderMap::new(), &head.headers, response.headers_mut());
                return Ok(request.into_response(response));
            }
        };
        if let Some(outcome) = admitted.outcome() {
            request.extensions_mut().insert(outcome.clone());
        }
        let mut response = context.call(&self.service, request).await?;
        let length = match response.response().body().size() {
            BodySize::None | BodySize::Empty => Some(0),
            BodySize::Sized(length) => Some(length),
            BodySize::Stream => None,
        };
        let before = copy_headers(response.headers());
        let mut after = before.clone();
        let in_flight = admitted.finish(response.status(), &mut after, length).await;
        write_changes(&before, &after, response.headers_mut());
        if in_flight.is_over() {
            return Ok(response);
        }
        Ok(response.map_body(|_, body| ResponseBody::Body(Body::from_message(GateBody { body, in_flight }))))
    }
}

// ntex has a header map of its own, so headers are copied.

fn copy_headers(headers: &ntex_header::HeaderMap) -> HeaderMap {
    header_map(headers.iter().map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes())))
}

fn write_changes(before: &HeaderMap, after: &HeaderMap, headers: &mut ntex_header::HeaderMap) {
    for (name, values) in changed_headers(before, after) {
        headers.remove(name);
        for value in values.iter().filter_map(|value| ntex_header::HeaderValue::from_bytes(value.as_bytes()).ok()) {
            headers.append(name.clone(), value);
        }
    }
}

/// The body of a response. The request is in flight until it ends.
struct GateBody<B> {
    body: B,
    in_flight: InFlight,
}

impl<B: MessageBody> MessageBody for GateBody<B> {
    fn size(&self) -> BodySize {
        self.body.size()
    }

    fn poll_next_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Rc<dyn Error>>>> {
        let piece = ready!(self.body.poll_next_chunk(context));
        match &piece {
            None => self.in_flight.end(),
            Some(Ok(piece)) => self.in_flight.record_chunk(piece.len() as u64),
            Some(Err(_)) => self.in_flight.fail(),
        }
        Poll::Ready(piece)
    }
}
