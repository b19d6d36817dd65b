//! How a request that is turned away is answered.

use http::{HeaderMap, Method, Response};

use crate::enforce::{Denial, Outcome};
use crate::http::{RateLimit, to_method};

/// What a [`Protocol`] tells admitted requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tells {
    /// Nothing: [`Protocol::tell`] does nothing.
    Nothing,
    /// What [`RateLimit::write_headers`] writes, and no more, so that it can be worked out before there is a response.
    Headers,
    /// Whatever it likes, unless the limits are to be told of by [no headers](crate::http::LimitHeaders::new) at all.
    Anything,
}

/// How a request that is turned away is answered, with a body of type `B`, and what an admitted one is told.
pub trait Protocol<B>: Clone {
    /// What an admitted request is told: less is quicker.
    const TELLS: Tells = Tells::Anything;

    /// The response to a request of that method that is turned away. To HEAD it must have no body.
    fn answer(&self, rate_limit: &RateLimit, outcome: &Outcome, method: &Method) -> Response<B>;

    /// The same, where one limit has said no and nobody else is told of that, so that there need not be an outcome. Nothing
    /// else may be answered: which of the two is asked depends on settings that are nobody's concern.
    fn deny(&self, rate_limit: &RateLimit, denial: &Denial<'_>, method: &Method) -> Response<B> {
        self.answer(rate_limit, &denial.outcome(), method)
    }

    /// Writes what an admitted request is told into the headers of its response.
    fn tell(&self, rate_limit: &RateLimit, outcome: &Outcome, headers: &mut HeaderMap);

    /// Is shown the response of a request that a handler's own attribute has turned away, which is answered already.
    fn show(&self, _response: &mut Response<B>) {}
}

/// As HTTP does: a status, the chosen headers, and a problem as the body.
#[derive(Debug, Clone, Copy, Default)]
pub struct Http;

impl<B: From<String>> Protocol<B> for Http {
    const TELLS: Tells = Tells::Headers;

    fn answer(&self, rate_limit: &RateLimit, outcome: &Outcome, method: &Method) -> Response<B> {
        to_method(method, rate_limit.answer(outcome)).map(B::from)
    }

    fn deny(&self, rate_limit: &RateLimit, denial: &Denial<'_>, method: &Method) -> Response<B> {
        match *method {
            Method::HEAD => self.answer(rate_limit, &denial.outcome(), method),
            _ => rate_limit.deny(denial),
        }
    }

    fn tell(&self, rate_limit: &RateLimit, outcome: &Outcome, headers: &mut HeaderMap) {
        rate_limit.write_headers(outcome, headers);
    }
}
