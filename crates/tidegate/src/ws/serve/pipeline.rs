//! What a message goes through on its way in, in this order:
//!
//! 1. its size
//! 2. a minimal parse: its type and correlation id, and nothing of the payload
//! 3. the rate limit
//! 4. how many calls are worked on
//! 5. the payload, parsed and validated into the handler's type
//! 6. middleware and handler
//!
//! So nothing that is turned away has cost more than the step that did it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tidegate_core::Timestamp;
use tokio::time::sleep;

use super::super::context::CallState;
use super::super::handler::Handler;
use super::super::rate_limit::Used;
use super::super::socket::Broken;
use super::super::wire::{ABORT, Head, RESERVED};
use super::super::{Code, Connection, Context, Data, Error, Exceeded, Ingress, Kind, Next, OnExceeded, Router, close};
use super::Ending;
use super::calls::{Calls, NoSlot, Slot};
use super::noise::Noise;
use super::work::Work;
use crate::enforce::Outcome;

/// What the messages of one connection go through.
pub(super) struct Pipeline<'a, D: Data> {
    router: &'a Router<D>,
    connection: &'a Connection<D>,
    /// How many messages there were.
    messages: u64,
    /// How many of the last ones were turned away, one after the other.
    refused: u32,
    noise: Noise,
    used: Used,
    calls: Calls,
    work: Work,
}

/// Why a message goes no further, and whom to tell.
struct Refusal {
    /// The correlation id, when it was a call.
    to: Option<String>,
    why: Why,
}

enum Why {
    /// The client is told what is wrong with it.
    Error(Error),
    /// The same, but it has cost nothing yet, so that there must not be many of them.
    Noise(Error),
    /// There was too much of something.
    Exceeded(Exceeded, OnExceeded),
}

impl<'a, D: Data> Pipeline<'a, D> {
    pub(super) fn new(router: &'a Router<D>, connection: &'a Connection<D>) -> Self {
        Pipeline {
            router,
            connection,
            messages: 0,
            refused: 0,
            noise: Noise::new(),
            used: Used::default(),
            calls: Calls::new(router.inner().settings.max_calls),
            work: Work::new(),
        }
    }

    /// Takes a message through the steps.
    pub(super) async fn message(&mut self, text: &str) -> Result<(), Ending> {
        match self.steps(text).await {
            Ok(()) => {
                self.refused = 0;
                Ok(())
            }
            Err(refusal) => self.refuse(refusal),
        }
    }

    async fn steps(&mut self, text: &str) -> Result<(), Refusal> {
        let received = self.connection.clock().now();
        // 1. Size, and how many there were
        self.count_message()?;
        self.check_size(text.len())?;
        // 2. Minimal parse
        let head = Head::read(text).map_err(|error| Refusal { to: None, why: Why::Noise(error) })?;
        if self.aborts(&head) {
            return Ok(());
        }
        let handler = self.router.inner().handlers.get(&*head.message_type);
        // 3. Rate limit
        let outcome = self.rate_limit(handler, received).await;
        // Calls may have ended meanwhile.
        let refused = |why| Refusal { to: self.reply_to(&head, handler), why };
        let outcome = outcome.map_err(refused)?;
        let Some(handler) = handler else { return unknown(&head).map_err(refused) };
        // 4. Calls in flight
        let slot = self.enter_call(&head, handler).map_err(refused)?;
        // The id is its own from here on.
        let call = head.correlation_id.as_deref().filter(|_| slot.is_some());
        // 5. Full parse and validation
        let next = self.parse(&head, handler).map_err(|why| Refusal { to: call.map(str::to_owned), why })?;
        // 6. Middleware and handler
        let context = Context {
            connection: self.connection.clone(),
            message_type: handler.message_type,
            received,
            outcome: outcome.map(Arc::new),
            call: call.map(|id| Arc::new(CallState::new(id))),
        };
        self.start(context, next, slot, head.timeout).await;
        Ok(())
    }

    fn check_size(&self, observed: usize) -> Result<(), Refusal> {
        let settings = &self.router.inner().settings;
        if observed <= settings.max_message { Ok(()) } else { Err(self.too_big(observed, settings.on_payload)) }
    }

    fn too_big(&self, observed: usize, on_exceeded: OnExceeded) -> Refusal {
        let limit = self.router.inner().settings.max_message;
        let exceeded = self.exceeded(Kind::Payload, observed as u64, limit as u64);
        Refusal { to: None, why: Why::Exceeded(exceeded, on_exceeded) }
    }

    fn count_message(&mut self) -> Result<(), Refusal> {
        self.messages += 1;
        match self.router.inner().settings.max_messages {
            Some(most) if self.messages > most => {
                let exceeded = self.exceeded(Kind::Messages, self.messages, most);
                Err(Refusal { to: None, why: Why::Exceeded(exceeded, OnExceeded::Close(close::TRY_AGAIN_LATER)) })
            }
            _ => Ok(()),
        }
    }

    /// Ends the call that the client gives up. That costs nothing: the call has paid for it. When there is no such call,
    /// the message is one like others.
    fn aborts(&self, head: &Head<'_>) -> bool {
        head.message_type == ABORT && head.correlation_id.as_ref().is_some_and(|id| self.calls.abort(id))
    }

    async fn rate_limit(&mut self, handler: Option<&Handler<D>>, received: Timestamp) -> Result<Option<Outcome>, Why> {
        let Some(rate_limit) = &self.router.inner().rate_limit else { return Ok(None) };
        let ingress = Ingress {
            message_type: handler.map(|handler| handler.message_type),
            handler: handler.map(|handler| handler.name),
            connection: self.connection.id(),
            client: self.connection.client(),
            data: self.connection.data(),
            received,
        };
        // Key and cost functions are the program's own, and one that panics is a mistake like any other.
        let asked = AssertUnwindSafe(rate_limit.ask(&ingress, &mut self.used)).catch_unwind().await;
        let Some((outcome, cost)) = asked.map_err(|_| Why::Error(self.failed()))? else { return Ok(None) };
        match &outcome {
            Outcome::Allowed(_) => Ok(Some(outcome)),
            Outcome::Limited(rulings) => {
                let binding = rulings.binding();
                let limit = binding.map_or(0, |ruling| ruling.decision().limit());
                let exceeded = Exceeded {
                    retry_after: outcome.retry_after(),
                    policy: binding.map(|ruling| ruling.policy().into()),
                    message_type: ingress.message_type,
                    ..self.exceeded(Kind::Rate, cost, limit)
                };
                Err(Why::Exceeded(exceeded, self.router.inner().settings.on_rate))
            }
            Outcome::Overloaded(refused) => {
                Err(Why::Error(Error::new(Code::Unavailable, "Too busy").with_retry_after(refused.retry_after())))
            }
            Outcome::Denied(_) => Err(Why::Error(Error::new(Code::PermissionDenied, "Not allowed"))),
            Outcome::Unavailable(_) => Err(Why::Error(Error::new(Code::Unavailable, "Limits cannot be checked now"))),
            Outcome::Invalid(crate::Error::InvalidCost(error)) => Err(Why::Error(Error::invalid(error.to_string()))),
            Outcome::Invalid(_) => Err(Why::Error(self.failed())),
        }
    }

    /// A place for a call.
    fn enter_call(&self, head: &Head<'_>, handler: &Handler<D>) -> Result<Option<Slot>, Why> {
        if !handler.is_call {
            return Ok(None);
        }
        let Some(id) = &head.correlation_id else {
            return Err(Why::Error(Error::invalid("A call has a correlation id")));
        };
        match self.calls.enter(id) {
            Ok(slot) => Ok(Some(slot)),
            Err(NoSlot::Busy(refused)) => {
                let (observed, limit) = (u64::from(self.calls.in_flight()) + 1, u64::from(self.calls.limit()));
                let exceeded = Exceeded {
                    retry_after: Some(refused.retry_after()),
                    message_type: Some(handler.message_type),
                    ..self.exceeded(Kind::Calls, observed, limit)
                };
                Err(Why::Exceeded(exceeded, OnExceeded::Send))
            }
            Err(NoSlot::Taken) => {
                Err(Why::Error(Error::new(Code::AlreadyExists, "A call with this correlation id is worked on")))
            }
        }
    }

    /// The payload in the handler's type. Reading and validating are the program's own, and may panic.
    fn parse(&self, head: &Head<'_>, handler: &Handler<D>) -> Result<Next<D>, Why> {
        let parsed = catch_unwind(AssertUnwindSafe(|| handler.parse(head.payload)));
        parsed.unwrap_or_else(|_| Err(self.failed())).map_err(Why::Error)
    }

    /// A mistake of the program's own.
    fn failed(&self) -> Error {
        let error = Error::internal();
        self.router.inner().hooks.failed(self.connection, &error);
        error
    }

    /// The correlation id to answer to: of calls, and of what might be one. Not one that is worked on: the client would take
    /// it for the end of that.
    fn reply_to(&self, head: &Head<'_>, handler: Option<&Handler<D>>) -> Option<String> {
        let may_be_call = handler.map_or(head.message_type != ABORT, |handler| handler.is_call);
        let id = head.correlation_id.as_ref().filter(|_| may_be_call)?;
        (!self.calls.is_running(id)).then(|| id.to_string())
    }

    async fn start(&mut self, context: Context<D>, next: Next<D>, slot: Option<Slot>, timeout: Option<Duration>) {
        let longest = self.router.inner().settings.call_timeout;
        match slot {
            Some(slot) => {
                let within = timeout.map_or(longest, |timeout| timeout.min(longest));
                self.work.call(self.router, context, next, slot, within);
            }
            None => self.work.event(self.router, context, next).await,
        }
    }

    /// The one place where a message is turned away.
    fn refuse(&mut self, refusal: Refusal) -> Result<(), Ending> {
        self.refused = self.refused.saturating_add(1);
        let to = refusal.to.as_deref();
        match refusal.why {
            Why::Error(error) => self.connection.send_error(to, &error),
            Why::Noise(error) => {
                self.control()?;
                self.connection.send_error(to, &error);
            }
            Why::Exceeded(exceeded, on_exceeded) => {
                self.router.inner().hooks.exceeded(&exceeded);
                // One that is too big has cost no token, and more than a frame that is no message.
                if exceeded.kind == Kind::Payload && !matches!(on_exceeded, OnExceeded::Close(_)) {
                    self.control()?;
                }
                match on_exceeded {
                    OnExceeded::Send => self.connection.send_error(to, &exceeded.error()),
                    OnExceeded::Close(code) => return Err(Ending::close(code, exceeded.error().message())),
                    OnExceeded::Custom => {}
                }
            }
        }
        Ok(())
    }

    /// What there was too much of, for good.
    fn exceeded(&self, kind: Kind, observed: u64, limit: u64) -> Exceeded {
        let connection = self.connection.id().clone();
        Exceeded { kind, observed, limit, retry_after: None, policy: None, connection, message_type: None }
    }
}

/// What is not a message, and how a connection begins and ends.
impl<D: Data> Pipeline<'_, D> {
    /// Tells the program that the connection is open.
    pub(super) async fn open(&mut self) -> Result<(), Ending> {
        let Some(on_open) = &self.router.inner().hooks.on_open else { return Ok(()) };
        let opened = AssertUnwindSafe(async { on_open(self.connection.clone()).await }).catch_unwind().await;
        opened.unwrap_or_else(|_| Err(Error::internal())).map_err(|error| {
            self.connection.send_error(None, &error);
            Ending::close(close::POLICY, error.message())
        })
    }

    /// Ends when more may be read: when the client is not behind with reading, and, for one that sends nothing but what is
    /// turned away, after a moment. So a flood waits at its own end of the connection, and costs the others little.
    pub(super) async fn eased(&self) {
        const BORNE: u32 = 16;
        const MOMENT: Duration = Duration::from_millis(1);
        if self.refused > BORNE {
            sleep(MOMENT).await;
        }
        self.connection.queue().eased().await;
    }

    /// A ping, which the socket has an answer to by now. Who does not read it is to be noticed.
    pub(super) fn ping(&mut self) -> Result<(), Ending> {
        self.connection.queue().nudge();
        self.control()
    }

    /// A frame that is no message.
    pub(super) fn control(&mut self) -> Result<(), Ending> {
        self.noise.count(self.connection.clock().now())
    }

    /// A frame that is not text, which no message is.
    pub(super) fn binary(&mut self, bytes: usize) -> Result<(), Ending> {
        let refusal = match self.count_message().and_then(|()| self.check_size(bytes)) {
            Ok(()) => Refusal { to: None, why: Why::Noise(Error::invalid("Messages are text frames")) },
            Err(refusal) => refusal,
        };
        self.refuse(refusal)
    }

    /// A socket that is of no use any more.
    pub(super) fn broken(&mut self, broken: Broken) -> Result<(), Ending> {
        match broken {
            // The socket has stopped in the middle of it, so that there is nothing but to close.
            Broken::TooBig { observed } => {
                let code = match self.router.inner().settings.on_payload {
                    OnExceeded::Close(code) => code,
                    OnExceeded::Send | OnExceeded::Custom => close::TOO_BIG,
                };
                match self.refuse(self.too_big(observed, OnExceeded::Close(code))) {
                    Err(Ending::Close { code, reason, .. }) => Err(Ending::close_unread(code, reason)),
                    other => other,
                }
            }
            Broken::NotText => Err(Ending::close_unread(close::INVALID_TEXT, "Text is not UTF-8")),
            Broken::Protocol => Err(Ending::close_unread(close::PROTOCOL_ERROR, "Against the protocol")),
            Broken::Gone => Err(Ending::gone()),
        }
    }

    /// Ends what is worked on, and says which keys end with the connection.
    pub(super) async fn end(self, within: Duration) -> Used {
        self.work.end(within).await;
        self.used
    }
}

/// What becomes of a message of which no handler knows the type, once it has been paid for.
fn unknown(head: &Head<'_>) -> Result<(), Why> {
    if head.message_type == ABORT {
        // It came too late.
        return Ok(());
    }
    Err(Why::Error(if head.message_type.starts_with(RESERVED) {
        Error::invalid("This type is the protocol's own")
    } else {
        Error::new(Code::Unimplemented, "Nothing here handles this type")
    }))
}
