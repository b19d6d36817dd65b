//! A [`Gate`] is a middleware of ntex: of an app, a scope or a resource.
//!
//! ```
//! use ntex::web::{App, HttpResponse, get, resource};
//! use tidegate::http::Gate;
//! use tidegate::{Limiter, Quota, seconds};
//!
//! let limiter = Limiter::builder().limit("api", Quota::token_bucket(10, seconds(1))?).build()?;
//! let gate = Gate::new((&limiter, "api"));
//! let app = App::new()
//!     .middleware(gate)
//!     .service(resource("/").route(get().to(async || HttpResponse::Ok().body("Hello!"))));
//! # let _ = app;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The peer is that of the connection. ntex knows no templates of routes. A handler finds the
//! [`Outcome`](crate::enforce::Outcome) among the extensions of its request where the gate
//! [hands it over](crate::http::RateLimit::extension), and what an outer middleware knows about a request it puts into a
//! [`tidegate::http::Extensions`](crate::http::Extensions) there.
//!
//! ntex has types of its own for headers, which are copied for what is to be decided.

use std::error::Error;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use http::{Extensions, HeaderMap};
use ntex::http::body::{Body, BodySize, MessageBody, ResponseBody};
use ntex::http::header as ntex_header;
use ntex::util::Bytes;
use ntex::web::{HttpResponse, WebRequest, WebResponse};
use ntex::{Middleware, Service, ServiceCtx};

use crate::http::foreign;
use crate::http::{Gate, InFlight, Incoming};

impl<S, C> Middleware<S, C> for Gate {
    type Service = Gated<S>;

    fn create(&self, service: S, _: C) -> Gated<S> {
        Gated { service, gate: self.clone() }
    }
}

/// A service behind a [`Gate`].
#[derive(Debug)]
pub struct Gated<S> {
    service: S,
    gate: Gate,
}

impl<S, E> Service<WebRequest<E>> for Gated<S>
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
            let (headers, peer) = (headers(request.headers()), request.peer_addr().map(|peer| peer.ip()));
            self.gate.enter(&Incoming::new(request.method(), request.uri(), &headers, &extensions).with_peer(peer))
        };
        let passage = match entering.await {
            Ok(passage) => passage,
            Err(answer) => {
                let (head, body) = answer.into_parts();
                let mut response = HttpResponse::build(head.status).body(body);
                write(&HeaderMap::new(), &head.headers, response.headers_mut());
                return Ok(request.into_response(response));
            }
        };
        if let Some(outcome) = passage.told() {
            request.extensions_mut().insert(outcome.clone());
        }
        let mut response = context.call(&self.service, request).await?;
        let length = match response.response().body().size() {
            BodySize::None | BodySize::Empty => Some(0),
            BodySize::Sized(length) => Some(length),
            BodySize::Stream => None,
        };
        let before = headers(response.headers());
        let mut after = before.clone();
        let in_flight = passage.conclude(response.status(), &mut after, length).await;
        write(&before, &after, response.headers_mut());
        if in_flight.is_over() {
            return Ok(response);
        }
        Ok(response.map_body(|_, body| ResponseBody::Body(Body::from_message(Counted { body, in_flight }))))
    }
}

fn headers(headers: &ntex_header::HeaderMap) -> HeaderMap {
    foreign::headers(headers.iter().map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes())))
}

fn write(before: &HeaderMap, after: &HeaderMap, headers: &mut ntex_header::HeaderMap) {
    for (name, values) in foreign::changed(before, after) {
        headers.remove(name);
        for value in values.iter().filter_map(|value| ntex_header::HeaderValue::from_bytes(value.as_bytes()).ok()) {
            headers.append(name.clone(), value);
        }
    }
}

/// The body of a response: its request is in flight until it ends.
struct Counted<B> {
    body: B,
    in_flight: InFlight,
}

impl<B: MessageBody> MessageBody for Counted<B> {
    fn size(&self) -> BodySize {
        self.body.size()
    }

    fn poll_next_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Rc<dyn Error>>>> {
        let piece = ready!(self.body.poll_next_chunk(context));
        match &piece {
            None => self.in_flight.end(),
            Some(Ok(piece)) => self.in_flight.hand_over(piece.len() as u64),
            Some(Err(_)) => self.in_flight.fail(),
        }
        Poll::Ready(piece)
    }
}
