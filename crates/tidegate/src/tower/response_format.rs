//! Response formats: the response to a denied request, and the limit headers of an admitted one.

use http::{HeaderMap, Method, Response};

use crate::enforce::Outcome;
use crate::http::RateLimit;
use crate::http::adapter::strip_head_body;

/// The format of responses to denied requests, with a body of type `B`, and of the headers of admitted ones.
pub trait ResponseFormat<B>: Clone {
    /// Returns the response to a denied request of that method. To HEAD it must have no body.
    fn denial(&self, rate_limit: &RateLimit, outcome: &Outcome, method: &Method) -> Response<B>;

    /// Writes the limits of an admitted request into the headers of its response.
    fn write_headers(&self, rate_limit: &RateLimit, outcome: &Outcome, headers: &mut HeaderMap);

    /// Called with the complete response of a request that a handler's own attribute has denied.
    fn on_attribute_denial(&self, _response: &mut Response<B>) {}
}

/// The format of HTTP: a status, the chosen headers, and a problem as the body.
#[derive(Debug, Clone, Copy, Default)]
pub struct HttpFormat;

impl<B: From<String>> ResponseFormat<B> for HttpFormat {
    fn denial(&self, rate_limit: &RateLimit, outcome: &Outcome, method: &Method) -> Response<B> {
        strip_head_body(method, rate_limit.response(outcome)).map(B::from)
    }

    fn write_headers(&self, rate_limit: &RateLimit, outcome: &Outcome, headers: &mut HeaderMap) {
        rate_limit.write_headers(outcome, headers);
    }
}
