//! The messages of the chat, in both directions.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidegate::Decision;
use tidegate::enforce::Outcome;
use tidegate::websocket::{ConnectionData, Context, Message, Rpc};

/// Joins a room. A call, because it has an answer.
#[derive(Deserialize)]
pub(crate) struct Join {
    pub(crate) room: String,
}

#[derive(Serialize)]
pub(crate) struct JoinReply {
    pub(crate) members: usize,
}

/// Sends text to the room. An event, because the events of one connection are handled in order.
#[derive(Deserialize)]
pub(crate) struct Say {
    pub(crate) text: String,
}

#[derive(Serialize)]
pub(crate) struct ChatMessage<'a> {
    pub(crate) name: &'a str,
    pub(crate) text: &'a str,
}

#[derive(Serialize)]
pub(crate) struct MemberJoined<'a> {
    pub(crate) name: &'a str,
}

#[derive(Serialize)]
pub(crate) struct MemberLeft<'a> {
    pub(crate) name: &'a str,
}

/// The remaining quota of each limit.
#[derive(Serialize)]
pub(crate) struct QuotaUpdate<'a> {
    pub(crate) limits: Vec<LimitQuota<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LimitQuota<'a> {
    pub(crate) limit: &'a str,
    remaining: u64,
    capacity: u64,
    /// The time until one more message is admitted.
    next_ms: Option<u128>,
    /// The time until the whole quota is back.
    full_ms: u128,
}

impl<'a> LimitQuota<'a> {
    pub(crate) fn from_outcome(context: &'a Context<impl ConnectionData>) -> impl Iterator<Item = Self> {
        let limit_decisions = context.outcome().map_or(&[][..], Outcome::limit_decisions);
        limit_decisions.iter().map(|limit| LimitQuota::new(limit.policy(), limit.decision()))
    }

    pub(crate) fn new(limit: &'a str, decision: &Decision) -> Self {
        LimitQuota {
            limit,
            remaining: decision.remaining(),
            capacity: decision.limit(),
            next_ms: decision.next_after().as_ref().map(Duration::as_millis),
            full_ms: decision.reset_after().as_millis(),
        }
    }
}

impl Message for Join {
    const TYPE: &'static str = "JOIN";

    fn validate(&self) -> Result<(), String> {
        check_length("a room", &self.room, 30)
    }
}

impl Rpc for Join {
    type Reply = JoinReply;
}

impl Message for JoinReply {
    const TYPE: &'static str = "JOINED";
}

impl Message for Say {
    const TYPE: &'static str = "SAY";

    fn validate(&self) -> Result<(), String> {
        check_length("a message", &self.text, 300)
    }
}

impl Message for ChatMessage<'_> {
    const TYPE: &'static str = "SAID";
}

impl Message for MemberJoined<'_> {
    const TYPE: &'static str = "CAME";
}

impl Message for MemberLeft<'_> {
    const TYPE: &'static str = "GONE";
}

impl Message for QuotaUpdate<'_> {
    const TYPE: &'static str = "QUOTA";
}

pub(crate) fn check_length(what: &str, text: &str, most: usize) -> Result<(), String> {
    let is_good = !text.trim().is_empty() && text.chars().count() <= most;
    if is_good { Ok(()) } else { Err(format!("{what} has 1 to {most} characters")) }
}
