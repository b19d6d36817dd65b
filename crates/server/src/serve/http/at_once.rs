//! The decisions that are asked for most, without the way through the router.

use std::sync::Arc;

use axum::response::IntoResponse;
use http::header::CONTENT_TYPE;
use http::{Method, Request, Response};
use hyper::body::Incoming;

use super::{body, decide};
use crate::json::{Op, same_site};
use crate::serve::answer::Answer;
use crate::serve::auth::{Token, may_ask};
use crate::serve::gate::Gate;
use crate::serve::requests::AtOnce;

/// Decides at once. Whatever is unusual about a request is left to the router.
#[derive(Clone)]
pub(crate) struct Decisions {
    pub(crate) gate: Arc<Gate>,
    pub(crate) token: Option<Token>,
}

impl AtOnce for Decisions {
    type Known = Op;

    fn knows(&self, request: &Request<Incoming>) -> Option<Op> {
        let op = match request.uri().path() {
            "/v1/limit" => Op::Limit,
            "/v1/check" => Op::Check,
            _ => return None,
        };
        let may_ask = may_ask(self.token.as_ref(), request.headers());
        let is_usual = *request.method() == Method::POST && same_site(request.uri(), request.headers()).is_ok();
        (is_usual && may_ask).then_some(op)
    }

    async fn answer(&self, op: Op, body: Incoming) -> Response<Answer> {
        match decide::decision(op, &self.gate, body).await {
            Ok(reply) => {
                let mut response = Response::new(Answer::whole(reply.to_json()));
                response.headers_mut().insert(CONTENT_TYPE, body::JSON);
                response
            }
            Err(problem) => problem.into_response().map(Answer::routed),
        }
    }
}
