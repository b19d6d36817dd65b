//! What a Worker asks of an object, in one message.

use tidegate::Timestamp;
use tidegate::api::apply::{ApplyRequest, ApplyResponse, OwnedRequest};
use tidegate::api::{MAX_KEY_TEXT_BYTES, Problem};

use super::book::{Asking, Book, Unsettled, When};
use super::rows::Rows;

/// The longest text that a Worker sends: a key's, and what sets keys apart.
pub(crate) const LONGEST: usize = MAX_KEY_TEXT_BYTES + 64;

/// What a Worker asks of an object, in one message.
pub(crate) struct Message {
    asking: Asking,
    owned: Vec<OwnedRequest>,
    /// When, if a test says so. Whether it may is for the Worker to say.
    at: Option<Timestamp>,
}

impl Message {
    /// The message that was sent to this path of an object.
    pub(crate) fn read(path: &str, body: &[u8]) -> Result<Self, Problem> {
        let call = ApplyRequest::parse(body)?;
        let asking = match path {
            "look" => Asking::Look,
            _ => Asking::Apply(call.mode()),
        };
        Ok(Message { asking, owned: call.to_owned_requests(LONGEST, str::to_owned)?, at: call.at(true)? })
    }

    /// The answer, unless it has to be settled first how many objects there are.
    pub(crate) fn answer<R: Rows>(&self, book: &Book<R>, now: Timestamp) -> Result<Vec<u8>, Unsettled> {
        let requests: Vec<_> = self.owned.iter().map(OwnedRequest::request).collect();
        let when = When { at: self.at.unwrap_or(now), given: self.at.is_some() };
        Ok(ApplyResponse::new(&book.answer(self.asking, &requests, when)?).to_json())
    }
}
