//! Rate limits of messages, and the action when a bound is exceeded.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{Key, Timestamp};

use super::{ConnectionData, ConnectionId, ErrorCode, KeyExtractor, MessageError, keys};
use crate::enforce::{Action, Caller, Enforcer, Outcome};
use crate::http::Client;

/// The head of a message, on which limits depend. It has no payload, which is not parsed yet: a key or cost must not
/// depend on text that a client invents.
#[derive(Debug)]
pub struct MessageHead<'a, D> {
    pub(super) message_type: Option<&'static str>,
    pub(super) handler: Option<&'static str>,
    pub(super) connection: &'a ConnectionId,
    pub(super) client: Option<&'a Client>,
    pub(super) data: &'a D,
    pub(super) received: Timestamp,
}

impl<D> MessageHead<'_, D> {
    /// Returns the type if it has a handler. All other types are `None`, because a client can make up any number of
    /// them.
    pub fn message_type(&self) -> Option<&'static str> {
        self.message_type
    }

    /// Returns the [handler](super::Message::HANDLER) of the type.
    pub fn handler(&self) -> Option<&'static str> {
        self.handler
    }

    /// Returns the connection.
    pub fn connection(&self) -> &ConnectionId {
        self.connection
    }

    /// Returns the client, if its address is known.
    pub fn client(&self) -> Option<&Client> {
        self.client
    }

    /// Returns the data of the connection.
    pub fn data(&self) -> &D {
        self.data
    }

    /// Returns when the message was received.
    pub fn received(&self) -> Timestamp {
        self.received
    }
}

type MessageFn<D, T> = Arc<dyn Fn(&MessageHead<'_, D>) -> T + Send + Sync>;

/// The rate limits of messages: an enforcer, the keys that messages count under, and their cost.
///
/// ```
/// use tidegate::websocket::{MessageRateLimit, keys};
/// use tidegate::{Limiter, Quota, seconds};
///
/// let limiter = Limiter::builder()
///     .limit("user", Quota::token_bucket(5, seconds(1))?.capacity(20)?)
///     .limit("address", Quota::token_bucket(50, seconds(1))?)
///     .build()?;
/// let limits: MessageRateLimit<()> = MessageRateLimit::new(limiter.enforcer("user")?.and("address")?) // all or nothing
///     .key_each([keys::user_and_type(), keys::address()])
///     .cost_of(|head| if head.message_type() == Some("SEARCH") { 5 } else { 1 });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct MessageRateLimit<D> {
    enforcer: EnforcerSource<D>,
    /// One for all limits, or one for each.
    keys: Vec<KeyExtractor<D>>,
    cost: Option<MessageFn<D, u64>>,
    skip: Option<MessageFn<D, bool>>,
}

enum EnforcerSource<D> {
    Fixed(Enforcer),
    Picked(MessageFn<D, Enforcer>),
}

impl<D: ConnectionData, L: Into<Enforcer>> From<L> for MessageRateLimit<D> {
    fn from(limits: L) -> Self {
        MessageRateLimit::new(limits)
    }
}

impl<D: ConnectionData> MessageRateLimit<D> {
    /// Limits messages by an [`Enforcer`] (`limiter.enforcer("send")?`) or a bare quota. Counts each
    /// user and message type separately.
    pub fn new(limits: impl Into<Enforcer>) -> Self {
        Self::from_source(EnforcerSource::Fixed(limits.into()))
    }

    /// Picks an enforcer for each message, such as for expensive types or paying users. Build the enforcers beforehand
    /// and clone them. Unknown limits show with the first message, not when the router is built.
    pub fn pick(pick: impl Fn(&MessageHead<'_, D>) -> Enforcer + Send + Sync + 'static) -> Self {
        Self::from_source(EnforcerSource::Picked(Arc::new(pick)))
    }

    fn from_source(enforcer: EnforcerSource<D>) -> Self {
        MessageRateLimit { enforcer, keys: vec![keys::user_and_type()], cost: None, skip: None }
    }

    /// Sets the key for all limits.
    #[must_use]
    pub fn key(mut self, key: KeyExtractor<D>) -> Self {
        self.keys = vec![key];
        self
    }

    /// Sets the key of each limit, in the order of the enforcer.
    #[must_use]
    pub fn key_each(mut self, keys: impl IntoIterator<Item = KeyExtractor<D>>) -> Self {
        self.keys = keys.into_iter().collect();
        self
    }

    /// Sets the cost of a message. Defaults to 1. A cost of 0 is rejected as INVALID_ARGUMENT.
    #[must_use]
    pub fn cost_of(mut self, cost: impl Fn(&MessageHead<'_, D>) -> u64 + Send + Sync + 'static) -> Self {
        self.cost = Some(Arc::new(cost));
        self
    }

    /// Exempts messages from the limits.
    #[must_use]
    pub fn skip(mut self, skip: impl Fn(&MessageHead<'_, D>) -> bool + Send + Sync + 'static) -> Self {
        self.skip = Some(Arc::new(skip));
        self
    }

    /// Returns the outcome and the cost; `None` for an exempt message.
    pub(super) async fn limit(
        &self,
        head: &MessageHead<'_, D>,
        connection_keys: &mut ConnectionKeys,
    ) -> Option<(Outcome, u64)> {
        if self.skip.as_ref().is_some_and(|skip| skip(head)) {
            return None;
        }
        let picked;
        let enforcer = match &self.enforcer {
            EnforcerSource::Fixed(enforcer) => enforcer,
            EnforcerSource::Picked(pick) => {
                picked = pick(head);
                &picked
            }
        };
        let cost = self.cost.as_ref().map_or(1, |cost| cost(head));
        let Some(caller) = self.caller(enforcer, head, connection_keys) else {
            return Some((enforcer.missing_key(), cost));
        };
        let outcome = match enforcer.try_apply(&caller, cost, Action::Limit) {
            Some(outcome) => outcome,
            None => enforcer.apply(&caller, cost, Action::Limit).await,
        };
        Some((outcome, cost))
    }

    /// Returns the caller of a message, and records keys that end with the connection.
    fn caller(
        &self,
        enforcer: &Enforcer,
        head: &MessageHead<'_, D>,
        connection_keys: &mut ConnectionKeys,
    ) -> Option<Caller<'static>> {
        let mut keys = Vec::with_capacity(self.keys.len());
        for (place, key_extractor) in self.keys.iter().enumerate() {
            let (key, is_connection) = key_extractor.extract(head)?;
            if is_connection {
                // A single key is known to every limit.
                let places = if self.keys.len() == 1 { 0..enforcer.len() } else { place..place + 1 };
                places.for_each(|place| connection_keys.record(enforcer, place, &key));
            }
            keys.push(key);
        }
        let caller = if keys.len() == 1 { Caller::new(keys.remove(0)) } else { Caller::with_keys(keys) };
        Some(match head.client() {
            Some(client) => caller.with_address(client.address()),
            None => caller,
        })
    }
}

/// The keys that end with this connection. They are few: one for each limit, or for each limit and type.
#[derive(Default)]
pub(super) struct ConnectionKeys(HashMap<(usize, usize, Key<'static>), Enforcer>);

impl ConnectionKeys {
    /// More means that the program builds enforcers for each message.
    const MAX_KEYS: usize = 1_024;

    fn record(&mut self, enforcer: &Enforcer, place: usize, key: &Key<'static>) {
        if self.0.len() < Self::MAX_KEYS {
            self.0.entry((enforcer.identity(), place, key.clone())).or_insert_with(|| enforcer.clone());
        }
    }

    /// Resets the keys at their limits.
    pub(super) async fn forget(self) {
        for ((_, place, key), enforcer) in self.0 {
            enforcer.forget(place, &key).await;
        }
    }
}

impl<D> fmt::Debug for MessageRateLimit<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("MessageRateLimit");
        if let EnforcerSource::Fixed(enforcer) = &self.enforcer {
            debug.field("enforcer", enforcer);
        }
        debug.field("keys", &self.keys).finish_non_exhaustive()
    }
}

/// The bound that was exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ExceededKind {
    /// The size of a message, in bytes.
    Payload,
    /// The rate of messages: the cost of this one, against the capacity of the limit.
    Rate,
    /// The number of concurrent RPCs of the connection.
    Rpcs,
    /// The number of messages in the life of the connection.
    Messages,
}

/// A message over a bound, for [`on_limit_exceeded`](super::RouterBuilder::on_limit_exceeded).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LimitExceeded {
    /// The bound.
    pub kind: ExceededKind,
    /// The observed value.
    pub observed: u64,
    /// The maximum.
    pub limit: u64,
    /// The time until a retry may succeed. `None` if it never can.
    pub retry_after: Option<Duration>,
    /// The client-facing name of the limit, for a rate.
    pub policy: Option<Arc<str>>,
    /// The connection.
    pub connection: ConnectionId,
    /// The type of the message, if it was parsed that far and has a handler.
    pub message_type: Option<&'static str>,
}

impl LimitExceeded {
    /// Returns the error for the client.
    pub(super) fn error(&self) -> MessageError {
        let message = match self.kind {
            ExceededKind::Payload => "Message too big",
            ExceededKind::Rate => "Rate limit exceeded",
            ExceededKind::Rpcs => "Too many calls at once",
            ExceededKind::Messages => "No more messages on this connection",
        };
        // Only a retryable error may have a retry hint.
        let code =
            if self.retry_after.is_some() { ErrorCode::ResourceExhausted } else { ErrorCode::FailedPrecondition };
        let mut error =
            MessageError::new(code, message).with_detail("observed", self.observed).with_detail("limit", self.limit);
        if let Some(policy) = &self.policy {
            error = error.with_detail("policy", &**policy);
        }
        match self.retry_after {
            Some(span) => error.with_retry_after(span),
            None => error,
        }
    }
}

/// The action when a message exceeds a bound. The handler never runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnExceeded {
    /// Sends an error: RESOURCE_EXHAUSTED with a retry hint, or FAILED_PRECONDITION when a retry can never succeed.
    Send,
    /// Closes the connection with this code.
    Close(u16),
    /// Sends nothing. The hook decides.
    Custom,
}

impl OnExceeded {
    /// Closes the connection with 1013, try again later.
    pub const CLOSE: OnExceeded = OnExceeded::Close(close_code::TRY_AGAIN_LATER);
}

/// Close codes that a router uses.
pub mod close_code {
    /// The program shuts down.
    pub const GOING_AWAY: u16 = 1001;
    /// The peer violated the protocol.
    pub const PROTOCOL_ERROR: u16 = 1002;
    /// Text is not UTF-8.
    pub const INVALID_TEXT: u16 = 1007;
    /// Policy violation: rejected, too many malformed frames, or not reading.
    pub const POLICY: u16 = 1008;
    /// A message is too large.
    pub const TOO_BIG: u16 = 1009;
    /// A limit is exceeded; try again later.
    pub const TRY_AGAIN_LATER: u16 = 1013;
}

impl fmt::Display for ExceededKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ExceededKind::Payload => "payload",
            ExceededKind::Rate => "rate",
            ExceededKind::Rpcs => "calls",
            ExceededKind::Messages => "messages",
        })
    }
}
