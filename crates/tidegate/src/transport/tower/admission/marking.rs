//! How the admission learns that a limit below it has turned a request away.

use http::{HeaderMap, Method, Response};

use crate::enforce::Outcome;
use crate::http::RateLimit;
use crate::tower::{Protocol, Tells};

/// A protocol whose answers are marked, so that the time of a request that was turned away teaches nobody anything.
#[derive(Debug, Clone)]
pub struct Marking<P>(pub(super) P);

/// In the extensions of a response: its request was turned away, and no work was done for it.
#[derive(Clone, Copy)]
pub(super) struct IsTurnedAway;

impl<B, P: Protocol<B>> Protocol<B> for Marking<P> {
    const TELLS: Tells = P::TELLS;

    fn answer(&self, rate_limit: &RateLimit, outcome: &Outcome, method: &Method) -> Response<B> {
        let mut response = self.0.answer(rate_limit, outcome, method);
        self.show(&mut response);
        response
    }

    fn tell(&self, rate_limit: &RateLimit, outcome: &Outcome, headers: &mut HeaderMap) {
        self.0.tell(rate_limit, outcome, headers);
    }

    fn show(&self, response: &mut Response<B>) {
        response.extensions_mut().insert(IsTurnedAway);
    }
}
