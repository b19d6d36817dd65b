//! The pipeline of an incoming message. Each step rejects a message before the next step costs anything:
//!
//! 1. its size
//! 2. a minimal parse of its type and correlation ID, not of its payload
//! 3. the rate limit
//! 4. the number of concurrent RPCs
//! 5. the payload, parsed and validated into the handler's type
//! 6. middleware and handler

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tidegate_core::{Cost, Op, Quota, State, Timestamp, step};
use tokio::time::sleep;

use super::connection::RpcState;
use super::limits::ConnectionKeys;
use super::message::Handler;
use super::session::CloseCause;
use super::socket::SocketError;
use super::tasks::{HandlerTasks, InFlightRpcs, RpcSlot, RpcSlotError};
use super::wire::{ABORT, Envelope, RESERVED};
use super::{
    Connection, ConnectionData, Context, ErrorCode, ExceededKind, LimitExceeded, MessageError, MessageHead, Next,
    OnExceeded, Router, close_code,
};
use crate::enforce::Outcome;
use crate::seconds;

/// The pipeline of one connection.
pub(super) struct Pipeline<'a, D: ConnectionData> {
    router: &'a Router<D>,
    connection: &'a Connection<D>,
    /// Received so far.
    messages: u64,
    /// Since the last message that got through.
    consecutive_rejections: u32,
    malformed_frames: MalformedFrameLimit,
    keys: ConnectionKeys,
    rpcs: InFlightRpcs,
    tasks: HandlerTasks,
}

/// A rejected message.
struct Rejection {
    /// The correlation ID, if it was an RPC.
    reply_to: Option<String>,
    reason: RejectionReason,
}

enum RejectionReason {
    /// An error for the client.
    Error(MessageError),
    /// An error at no cost to the client so far, so there must not be many of them.
    Malformed(MessageError),
    /// A bound was exceeded.
    Exceeded(LimitExceeded, OnExceeded),
}

impl From<MessageError> for RejectionReason {
    fn from(error: MessageError) -> Self {
        RejectionReason::Error(error)
    }
}

impl<'a, D: ConnectionData> Pipeline<'a, D> {
    pub(super) fn new(router: &'a Router<D>, connection: &'a Connection<D>) -> Self {
        Pipeline {
            router,
            connection,
            messages: 0,
            consecutive_rejections: 0,
            malformed_frames: MalformedFrameLimit::new(),
            keys: ConnectionKeys::default(),
            rpcs: InFlightRpcs::new(router.inner().settings.max_concurrent_rpcs),
            tasks: HandlerTasks::new(),
        }
    }

    /// Runs a message through the steps.
    pub(super) async fn message(&mut self, text: &str) -> Result<(), CloseCause> {
        match self.process(text).await {
            Ok(()) => {
                self.consecutive_rejections = 0;
                Ok(())
            }
            Err(rejection) => self.reject(rejection),
        }
    }

    async fn process(&mut self, text: &str) -> Result<(), Rejection> {
        let received = self.connection.clock().now();
        // 1. Size and number
        self.count_message()?;
        self.check_size(text.len())?;
        // 2. Minimal parse
        let envelope = Envelope::read(text)
            .map_err(|error| Rejection { reply_to: None, reason: RejectionReason::Malformed(error) })?;
        if self.abort_rpc(&envelope) {
            return Ok(());
        }
        let handler = self.router.inner().handlers.get(&*envelope.message_type);
        // 3. Rate limit
        let outcome = self.rate_limit(handler, received).await;
        // RPCs may have ended meanwhile.
        let rejected = |reason| Rejection { reply_to: self.reply_to(&envelope, handler), reason };
        let outcome = outcome.map_err(rejected)?;
        let Some(handler) = handler else { return reject_unknown_type(&envelope).map_err(rejected) };
        // 4. Concurrent RPCs
        let slot = self.acquire_rpc_slot(&envelope, handler).map_err(rejected)?;
        // From here on this RPC owns its ID.
        let rpc_id = envelope.correlation_id.as_deref().filter(|_| slot.is_some());
        // 5. Full parse and validation
        let next = self
            .parse(&envelope, handler)
            .map_err(|reason| Rejection { reply_to: rpc_id.map(str::to_owned), reason })?;
        // 6. Middleware and handler
        let context = Context {
            connection: self.connection.clone(),
            message_type: handler.message_type,
            received,
            outcome: outcome.map(Arc::new),
            rpc: rpc_id.map(|id| Arc::new(RpcState::new(id))),
        };
        self.start(context, next, slot, envelope.timeout).await;
        Ok(())
    }

    fn check_size(&self, observed: usize) -> Result<(), Rejection> {
        let settings = &self.router.inner().settings;
        if observed <= settings.max_message_bytes { Ok(()) } else { Err(self.too_large(observed, settings.on_payload)) }
    }

    fn too_large(&self, observed: usize, on_exceeded: OnExceeded) -> Rejection {
        let limit = self.router.inner().settings.max_message_bytes;
        let exceeded = self.exceeded(ExceededKind::Payload, observed as u64, limit as u64);
        Rejection { reply_to: None, reason: RejectionReason::Exceeded(exceeded, on_exceeded) }
    }

    fn count_message(&mut self) -> Result<(), Rejection> {
        self.messages += 1;
        match self.router.inner().settings.max_messages {
            Some(max) if self.messages > max => {
                let exceeded = self.exceeded(ExceededKind::Messages, self.messages, max);
                Err(Rejection {
                    reply_to: None,
                    reason: RejectionReason::Exceeded(exceeded, OnExceeded::Close(close_code::TRY_AGAIN_LATER)),
                })
            }
            _ => Ok(()),
        }
    }

    /// Aborts the RPC if the message says so. An abort is free: its RPC has paid. An abort of no RPC is a message like
    /// any other.
    fn abort_rpc(&self, envelope: &Envelope<'_>) -> bool {
        envelope.message_type == ABORT && envelope.correlation_id.as_ref().is_some_and(|id| self.rpcs.abort(id))
    }

    async fn rate_limit(
        &mut self,
        handler: Option<&Handler<D>>,
        received: Timestamp,
    ) -> Result<Option<Outcome>, RejectionReason> {
        let Some(rate_limit) = &self.router.inner().rate_limit else { return Ok(None) };
        let head = MessageHead {
            message_type: handler.map(|handler| handler.message_type),
            handler: handler.map(|handler| handler.name),
            connection: self.connection.id(),
            client: self.connection.client(),
            data: self.connection.data(),
            received,
        };
        // Key and cost functions are user code: a panic is an internal error.
        let limited = AssertUnwindSafe(rate_limit.limit(&head, &mut self.keys)).catch_unwind().await;
        let Some((outcome, cost)) = limited.map_err(|_| self.internal_error())? else { return Ok(None) };
        match &outcome {
            Outcome::Allowed(_) => Ok(Some(outcome)),
            Outcome::Limited(limit_decisions) => {
                let binding = limit_decisions.binding();
                let limit = binding.map_or(0, |limit| limit.decision().limit());
                let exceeded = LimitExceeded {
                    retry_after: outcome.retry_after(),
                    policy: binding.map(|limit| limit.policy().into()),
                    message_type: head.message_type,
                    ..self.exceeded(ExceededKind::Rate, cost, limit)
                };
                Err(RejectionReason::Exceeded(exceeded, self.router.inner().settings.on_rate))
            }
            Outcome::Overloaded(overload) => {
                let error = MessageError::new(ErrorCode::Unavailable, "Too busy");
                Err(error.with_retry_after(overload.retry_after()).into())
            }
            Outcome::Denied(_) => Err(MessageError::new(ErrorCode::PermissionDenied, "Not allowed").into()),
            Outcome::Unavailable(_) => {
                Err(MessageError::new(ErrorCode::Unavailable, "Limits cannot be checked now").into())
            }
            Outcome::Invalid(crate::Error::InvalidCost(error)) => Err(MessageError::invalid(error.to_string()).into()),
            Outcome::Invalid(_) => Err(self.internal_error().into()),
        }
    }

    /// Reserves a slot for an RPC.
    fn acquire_rpc_slot(
        &self,
        envelope: &Envelope<'_>,
        handler: &Handler<D>,
    ) -> Result<Option<RpcSlot>, RejectionReason> {
        if !handler.is_rpc {
            return Ok(None);
        }
        let Some(id) = &envelope.correlation_id else {
            return Err(MessageError::invalid("A call has a correlation id").into());
        };
        match self.rpcs.acquire(id) {
            Ok(slot) => Ok(Some(slot)),
            Err(RpcSlotError::Busy(busy)) => {
                let (observed, limit) = (u64::from(self.rpcs.in_flight()) + 1, u64::from(self.rpcs.limit()));
                let exceeded = LimitExceeded {
                    retry_after: Some(busy.retry_after()),
                    message_type: Some(handler.message_type),
                    ..self.exceeded(ExceededKind::Rpcs, observed, limit)
                };
                Err(RejectionReason::Exceeded(exceeded, OnExceeded::Send))
            }
            Err(RpcSlotError::DuplicateId) => {
                Err(MessageError::new(ErrorCode::AlreadyExists, "A call with this correlation id is worked on").into())
            }
        }
    }

    /// Parses the payload. Parsing and validating are user code and may panic.
    fn parse(&self, envelope: &Envelope<'_>, handler: &Handler<D>) -> Result<Next<D>, RejectionReason> {
        let parsed = catch_unwind(AssertUnwindSafe(|| handler.parse(envelope.payload)));
        parsed.unwrap_or_else(|_| Err(self.internal_error())).map_err(RejectionReason::Error)
    }

    /// Reports a programming error.
    fn internal_error(&self) -> MessageError {
        let error = MessageError::internal();
        self.router.inner().hooks.handler_failed(self.connection, &error);
        error
    }

    /// Returns the correlation ID to answer: of RPCs, and of messages that may be RPCs. An ID in flight is left out,
    /// because the client would take the answer for the end of that RPC.
    fn reply_to(&self, envelope: &Envelope<'_>, handler: Option<&Handler<D>>) -> Option<String> {
        let may_be_rpc = handler.map_or(envelope.message_type != ABORT, |handler| handler.is_rpc);
        let id = envelope.correlation_id.as_ref().filter(|_| may_be_rpc)?;
        (!self.rpcs.is_running(id)).then(|| id.to_string())
    }

    async fn start(&mut self, context: Context<D>, next: Next<D>, slot: Option<RpcSlot>, timeout: Option<Duration>) {
        let rpc_timeout = self.router.inner().settings.rpc_timeout;
        match slot {
            Some(slot) => {
                let within = timeout.map_or(rpc_timeout, |timeout| timeout.min(rpc_timeout));
                self.tasks.spawn_rpc(self.router, context, next, slot, within);
            }
            None => self.tasks.queue_event(self.router, context, next).await,
        }
    }

    /// Answers a rejected message. The only place that does.
    fn reject(&mut self, rejection: Rejection) -> Result<(), CloseCause> {
        self.consecutive_rejections = self.consecutive_rejections.saturating_add(1);
        let to = rejection.reply_to.as_deref();
        match rejection.reason {
            RejectionReason::Error(error) => self.connection.send_error(to, &error),
            RejectionReason::Malformed(error) => {
                self.control_frame()?;
                self.connection.send_error(to, &error);
            }
            RejectionReason::Exceeded(exceeded, on_exceeded) => {
                self.router.inner().hooks.limit_exceeded(&exceeded);
                // A large message costs no token, and more than a malformed frame.
                if exceeded.kind == ExceededKind::Payload && !matches!(on_exceeded, OnExceeded::Close(_)) {
                    self.control_frame()?;
                }
                match on_exceeded {
                    OnExceeded::Send => self.connection.send_error(to, &exceeded.error()),
                    OnExceeded::Close(code) => return Err(CloseCause::close(code, exceeded.error().message())),
                    OnExceeded::Custom => {}
                }
            }
        }
        Ok(())
    }

    /// Returns an exceeded bound without a retry hint.
    fn exceeded(&self, kind: ExceededKind, observed: u64, limit: u64) -> LimitExceeded {
        let connection = self.connection.id().clone();
        LimitExceeded { kind, observed, limit, retry_after: None, policy: None, connection, message_type: None }
    }
}

/// Control frames, malformed frames, and the ends of a connection.
impl<D: ConnectionData> Pipeline<'_, D> {
    /// Runs the `on_open` hook.
    pub(super) async fn open(&mut self) -> Result<(), CloseCause> {
        let Some(on_open) = &self.router.inner().hooks.on_open else { return Ok(()) };
        let opened = AssertUnwindSafe(async { on_open(self.connection.clone()).await }).catch_unwind().await;
        opened.unwrap_or_else(|_| Err(MessageError::internal())).map_err(|error| {
            self.connection.send_error(None, &error);
            CloseCause::close(close_code::POLICY, error.message())
        })
    }

    /// Waits until more may be read: until the client reads, and, after many rejections in a row, for a moment. A flood
    /// then waits at its own end of the connection and costs other clients little.
    pub(super) async fn wait_for_room(&self) {
        const MAX_CONSECUTIVE_REJECTIONS: u32 = 16;
        const PENALTY: Duration = Duration::from_millis(1);
        if self.consecutive_rejections > MAX_CONSECUTIVE_REJECTIONS {
            sleep(PENALTY).await;
        }
        self.connection.queue().wait_for_room().await;
    }

    /// Handles a ping. The socket has queued the pong by now, and sending it shows whether the client reads.
    pub(super) fn ping(&mut self) -> Result<(), CloseCause> {
        self.connection.queue().wake_writer();
        self.control_frame()
    }

    /// Counts a control frame.
    pub(super) fn control_frame(&mut self) -> Result<(), CloseCause> {
        self.malformed_frames.record(self.connection.clock().now())
    }

    /// Rejects a binary frame: messages are text.
    pub(super) fn binary(&mut self, bytes: usize) -> Result<(), CloseCause> {
        let rejection = match self.count_message().and_then(|()| self.check_size(bytes)) {
            Ok(()) => Rejection {
                reply_to: None,
                reason: RejectionReason::Malformed(MessageError::invalid("Messages are text frames")),
            },
            Err(rejection) => rejection,
        };
        self.reject(rejection)
    }

    /// Returns why a broken socket closes the connection.
    pub(super) fn socket_error(&mut self, error: SocketError) -> Result<(), CloseCause> {
        match error {
            // The socket has stopped within the message, so the connection must close.
            SocketError::TooBig { observed } => {
                let code = match self.router.inner().settings.on_payload {
                    OnExceeded::Close(code) => code,
                    OnExceeded::Send | OnExceeded::Custom => close_code::TOO_BIG,
                };
                match self.reject(self.too_large(observed, OnExceeded::Close(code))) {
                    Err(CloseCause::Close { code, reason, .. }) => Err(CloseCause::close_without_reading(code, reason)),
                    other => other,
                }
            }
            SocketError::NotText => {
                Err(CloseCause::close_without_reading(close_code::INVALID_TEXT, "Text is not UTF-8"))
            }
            SocketError::Protocol => {
                Err(CloseCause::close_without_reading(close_code::PROTOCOL_ERROR, "Against the protocol"))
            }
            SocketError::Disconnected => Err(CloseCause::disconnected()),
        }
    }

    /// Ends the handlers, and returns the keys that end with the connection.
    pub(super) async fn end(self, within: Duration) -> ConnectionKeys {
        self.tasks.end(within).await;
        self.keys
    }
}

/// Returns the rejection of a type without a handler. The rate limit has charged it by then.
fn reject_unknown_type(envelope: &Envelope<'_>) -> Result<(), RejectionReason> {
    if envelope.message_type == ABORT {
        // The RPC ended before the abort arrived.
        return Ok(());
    }
    Err(RejectionReason::Error(if envelope.message_type.starts_with(RESERVED) {
        MessageError::invalid("This type is the protocol's own")
    } else {
        MessageError::new(ErrorCode::Unimplemented, "Nothing here handles this type")
    }))
}

/// A limit on frames that no rate limit counts: pings, pongs and malformed frames. Each costs little, but no client
/// needs many.
pub(super) struct MalformedFrameLimit {
    quota: Quota,
    state: State,
}

impl MalformedFrameLimit {
    const PER_SECOND: u64 = 20;
    const BURST: u64 = 200;

    pub(super) fn new() -> Self {
        let quota = Quota::token_bucket(Self::PER_SECOND, seconds(1)).and_then(|quota| quota.capacity(Self::BURST));
        MalformedFrameLimit { quota: quota.expect("two numbers above 0"), state: State::New }
    }

    /// Counts a frame.
    pub(super) fn record(&mut self, now: Timestamp) -> Result<(), CloseCause> {
        let stepped = step(&self.quota, &mut self.state, Op::Limit(Cost::ONE), now);
        if stepped.decision.allowed() { Ok(()) } else { Err(CloseCause::close(close_code::POLICY, Self::reason())) }
    }

    fn reason() -> String {
        format!("{}: too many frames that are no messages", ErrorCode::ResourceExhausted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn burst_of_malformed_frames_is_tolerated_and_flood_is_not() {
        let mut limit = MalformedFrameLimit::new();
        let now = Timestamp::from_millis(1_000_000);
        let tolerated = (0..1_000).take_while(|_| limit.record(now).is_ok()).count();
        assert_eq!(tolerated, 200);
        assert!(limit.record(now.saturating_add(seconds(1))).is_ok(), "the quota refills");
    }
}
