//! Messages from a Worker to its objects.

use tidegate::Timestamp;
use tidegate::api::apply::{ApplyRequest, ApplyResponse, OwnedRequest};
use tidegate::api::{MAX_KEY_TEXT_BYTES, Problem};
use worker::{Method, Request};

use super::table::{DecisionTime, ObjectOp, Rows, ShardTable, UnsetShardCount};
use crate::Shards;

/// The header of a message that carries the index of its object.
const SHARD_HEADER: &str = "tidegate-shard";
/// The header of a message that carries the number of objects.
const SHARDS_HEADER: &str = "tidegate-shards";

/// The longest text of a key in a message: a key's own text and the prefix that isolates it.
pub(crate) const MAX_MESSAGE_KEY_BYTES: usize = MAX_KEY_TEXT_BYTES + 64;

/// The index of an object and the number of objects that the Worker counts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ObjectAddress {
    pub(crate) shard: u16,
    pub(crate) shards: Shards,
}

impl ObjectAddress {
    /// Reads the address that a message was sent to.
    pub(super) fn from_request(request: &Request) -> Result<Self, Problem> {
        let number = |name| request.headers().get(name).ok().flatten().and_then(|number| number.parse().ok());
        let shards = number(SHARDS_HEADER).and_then(Shards::new);
        let address = number(SHARD_HEADER).zip(shards).map(|(shard, shards)| ObjectAddress { shard, shards });
        address.ok_or_else(|| Problem::bad_request("only a Worker asks an object"))
    }

    /// Builds a message to the object.
    pub(crate) fn new_request(self, path: &str, body: &[u8]) -> worker::Result<Request> {
        let mut init = worker::RequestInit::new();
        let headers = worker::Headers::new();
        headers.set(SHARD_HEADER, &self.shard.to_string())?;
        headers.set(SHARDS_HEADER, &self.shards.to_string())?;
        let body = worker::js_sys::Uint8Array::from(body);
        init.with_method(Method::Post).with_headers(headers).with_body(Some(body.into()));
        Request::new_with_init(&format!("https://object/{path}"), &init)
    }
}

/// Requests that a Worker sends to an object in one message.
pub(crate) struct ObjectMessage {
    op: ObjectOp,
    owned: Vec<OwnedRequest>,
    /// The time that a test passes in. The Worker has checked that it may.
    at: Option<Timestamp>,
}

impl ObjectMessage {
    /// Parses the message that was sent to this path of an object.
    pub(crate) fn parse(path: &str, body: &[u8]) -> Result<Self, Problem> {
        let call = ApplyRequest::parse(body)?;
        let op = match path {
            "look" => ObjectOp::CheckAll,
            _ => ObjectOp::Apply(call.mode()),
        };
        Ok(ObjectMessage {
            op,
            owned: call.to_owned_requests(MAX_MESSAGE_KEY_BYTES, str::to_owned)?,
            at: call.at(true)?,
        })
    }

    /// Decides the requests and returns the body of the response.
    pub(crate) fn respond<R: Rows>(&self, table: &ShardTable<R>, now: Timestamp) -> Result<Vec<u8>, UnsetShardCount> {
        let requests: Vec<_> = self.owned.iter().map(OwnedRequest::request).collect();
        let time = DecisionTime { at: self.at.unwrap_or(now), is_test: self.at.is_some() };
        Ok(ApplyResponse::new(&table.decide(self.op, &requests, time)?).to_json())
    }
}
