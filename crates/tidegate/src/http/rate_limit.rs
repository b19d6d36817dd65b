//! What a service wants of its limits, for every transport that speaks HTTP.

use std::fmt;
#[cfg(feature = "tower")]
use std::net::Ipv4Addr;
use std::sync::Arc;

use http::{Extensions, HeaderMap, Response, StatusCode};
use tidegate_core::Key;
#[cfg(feature = "tower")]
use tidegate_core::{Decision, Reason};

use super::asking::Asking;
use super::demand::Demand;
#[cfg(feature = "tower")]
use super::headers::{Says, Told};
use super::problem::Beginning;
use super::{Client, ClientAddress, ForwardingWarning, Incoming, LimitHeaders, answer};
#[cfg(all(feature = "macros", feature = "tower"))]
use crate::clock::{Clock, SystemClock};
use crate::enforce::{Caller, Enforcer, Outcome, Step};
#[cfg(feature = "tower")]
use crate::enforce::{Denial, Plainly};
#[cfg(feature = "tower")]
use crate::tower::Tells;

type Of<T> = Arc<dyn Fn(&Incoming<'_>) -> T + Send + Sync>;
pub(super) type KeyOf = dyn Fn(&Incoming<'_>) -> Option<Key<'static>> + Send + Sync;
type Charge = Arc<dyn Fn(StatusCode, &HeaderMap) -> bool + Send + Sync>;
type Respond = Arc<dyn Fn(&Outcome, Response<String>) -> Response<String> + Send + Sync>;

/// What a service wants of its limits: whom a request is counted under, what it costs, which requests are left alone,
/// and what is answered. The same for every transport that speaks HTTP. Cheap to clone.
///
/// ```
/// use tidegate::enforce::Enforcer;
/// use tidegate::http::{HeaderStyle, LimitHeaders, RateLimit, keys};
/// use tidegate::{Limiter, Quota, minutes};
///
/// let limiter = Limiter::builder().limit("login", Quota::fixed_window(5, minutes(1))?).build()?;
/// let login = RateLimit::new(Enforcer::new(&limiter, "login"))
///     .headers(LimitHeaders::new([HeaderStyle::Ietf, HeaderStyle::Legacy]))
///     .skip(|incoming| incoming.is_preflight())
///     .charge_when(|status, _| status == 401); // only failed logins count
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct RateLimit {
    inner: Arc<Inner>,
}

/// What every request looks at is close together: between two requests a server has used the processor's cache for other
/// things, and each line of it that has to be fetched again costs as much as dozens of instructions. It is not the first,
/// because there is the count of shares, which every request of every thread writes to.
#[derive(Clone)]
#[repr(C)]
struct Inner {
    keys: Keys,
    cost: Option<Of<u64>>,
    skip: Option<Of<bool>>,
    charge_when: Option<Charge>,
    /// Whether a request is known by one key, costs 1, and leaves nothing behind but the headers of its response.
    #[cfg(feature = "tower")]
    usual: bool,
    /// Whether nobody but the peer itself is believed about who it is.
    #[cfg(feature = "tower")]
    direct: bool,
    /// What is said of an admitted request.
    #[cfg(feature = "tower")]
    says: Says,
    extension: bool,
    enforcer: Which,
    warning: Arc<ForwardingWarning>,
    client_address: ClientAddress,
    headers: LimitHeaders,
    beginning: Beginning,
    respond: Option<Respond>,
}

impl Inner {
    /// Works out what follows from the rest.
    #[cfg(feature = "tower")]
    fn settle(&mut self) {
        let Inner { keys, cost, skip, charge_when, extension, .. } = self;
        let is_plain = cost.is_none() && skip.is_none() && charge_when.is_none() && !*extension;
        self.usual = is_plain && !matches!(keys, Keys::Each(_));
        self.direct = self.client_address.trusts_nobody();
        self.says = self.headers.says();
    }
}

/// Which limits a request meets.
#[derive(Clone)]
enum Which {
    One(Enforcer),
    Picked(Of<Enforcer>),
}

/// Whom the limits know a request by.
#[derive(Clone)]
enum Keys {
    /// By its address, as [`keys::client`](super::keys::client) has it.
    Client,
    Same(Arc<KeyOf>),
    Each(Of<Option<Vec<Key<'static>>>>),
}

impl<L: Into<Enforcer>> From<L> for RateLimit {
    fn from(limits: L) -> Self {
        RateLimit::new(limits)
    }
}

impl RateLimit {
    /// Enforces a limit of a limiter (`(&limiter, "api")`), a bare quota, or whatever an [`Enforcer`] does; for each
    /// client on its own.
    pub fn new(limits: impl Into<Enforcer>) -> Self {
        Self::of(Which::One(limits.into()))
    }

    /// Enforces on each request what `pick` picks for it: other limits for premium users, another limiter for each
    /// tenant. What it picks is best made beforehand and cloned; where a plan's numbers come from a database, the quota can be set on
    /// the clone ([`Enforcer::quota`]), at the price of an allocation, and an outer layer has to have found them: this does not wait.
    pub fn pick(pick: impl Fn(&Incoming<'_>) -> Enforcer + Send + Sync + 'static) -> Self {
        Self::of(Which::Picked(Arc::new(pick)))
    }

    /// Enforces no limit: for an admission that is only about how many requests are in flight.
    pub fn unlimited() -> Self {
        Self::new(Enforcer::unlimited())
    }

    fn of(enforcer: Which) -> Self {
        let inner = Inner {
            keys: Keys::Client,
            cost: None,
            skip: None,
            charge_when: None,
            #[cfg(feature = "tower")]
            usual: false,
            #[cfg(feature = "tower")]
            direct: false,
            #[cfg(feature = "tower")]
            says: Says::Nothing,
            extension: false,
            enforcer,
            warning: Arc::default(),
            client_address: ClientAddress::new(),
            headers: LimitHeaders::default(),
            beginning: Beginning::default(),
            respond: None,
        };
        RateLimit { inner: Arc::new(inner) }.with(|_| ())
    }

    /// Whom a request is counted under: [`keys`](super::keys) has functions for it. The client's address unless said
    /// otherwise, and wherever there is no key.
    #[must_use]
    pub fn key(self, key: impl Fn(&Incoming<'_>) -> Option<Key<'static>> + Send + Sync + 'static) -> Self {
        self.with(|inner| inner.keys = Keys::Same(Arc::new(key)))
    }

    /// Whom each of several limits counts a request under, in the order in which the enforcer has them. Without, the
    /// client's address for all of them; and so where it says `None`, also for limits that count everybody together
    /// ([`Key::GLOBAL`]): where only one key is missing, put another in its place.
    #[must_use]
    pub fn key_each(self, keys: impl Fn(&Incoming<'_>) -> Option<Vec<Key<'static>>> + Send + Sync + 'static) -> Self {
        self.with(|inner| inner.keys = Keys::Each(Arc::new(keys)))
    }

    /// What every request costs: 1 unless said otherwise.
    #[must_use]
    pub fn cost(self, cost: u64) -> Self {
        self.cost_of(move |_| cost)
    }

    /// What a request costs. 0 is a mistake in the program, and answered with 500: where clients have a say in it, `max(1)`.
    #[must_use]
    pub fn cost_of(self, cost: impl Fn(&Incoming<'_>) -> u64 + Send + Sync + 'static) -> Self {
        self.with(|inner| inner.cost = Some(Arc::new(cost)))
    }

    /// Which requests are left alone, such as health checks, or [preflights](Incoming::is_preflight).
    #[must_use]
    pub fn skip(self, skip: impl Fn(&Incoming<'_>) -> bool + Send + Sync + 'static) -> Self {
        self.with(|inner| inner.skip = Some(Arc::new(skip)))
    }

    /// Looks first, and charges when the response is known, and only if it is one of these: those of failed logins, for
    /// instance. Whoever was let through at the same time is charged as well, which may be debt then. Where there is no
    /// response, because the client hangs up before or the service fails with an error, nothing is charged.
    #[must_use]
    pub fn charge_when(self, charge: impl Fn(StatusCode, &HeaderMap) -> bool + Send + Sync + 'static) -> Self {
        self.with(|inner| inner.charge_when = Some(Arc::new(charge)))
    }

    /// How the address of a client is found: the connection's peer unless said otherwise.
    #[must_use]
    pub fn client_address(self, client_address: ClientAddress) -> Self {
        self.with(|inner| inner.client_address = client_address)
    }

    /// Which headers tell clients about their limits.
    #[must_use]
    pub fn headers(self, headers: LimitHeaders) -> Self {
        self.with(|inner| inner.headers = headers)
    }

    /// Changes what is answered to a request that is turned away. The response has its status, headers and body by then.
    /// A transport that answers in its own way, such as gRPC, does not ask.
    #[must_use]
    pub fn respond(
        self,
        respond: impl Fn(&Outcome, Response<String>) -> Response<String> + Send + Sync + 'static,
    ) -> Self {
        self.with(|inner| inner.respond = Some(Arc::new(respond)))
    }

    /// Puts the [`Outcome`] of an admitted request into its extensions, for the handler. It costs an allocation.
    #[must_use]
    pub fn extension(self) -> Self {
        self.with(|inner| inner.extension = true)
    }

    /// Begins with a request. None for one that is left alone.
    pub fn begin(&self, incoming: &Incoming<'_>) -> Option<Asking> {
        Some(Asking { demand: self.demand(incoming)?, rate_limit: self.clone() })
    }

    /// What a request asks of its limits. None for one that is left alone.
    pub(crate) fn demand(&self, incoming: &Incoming<'_>) -> Option<Demand> {
        let inner = &*self.inner;
        let client = self.client(incoming);
        let incoming = incoming.with_client(client.as_ref());
        if inner.skip.as_ref().is_some_and(|skip| skip(&incoming)) {
            return None;
        }
        let picked = match &inner.enforcer {
            Which::One(_) => None,
            Which::Picked(pick) => Some(pick(&incoming)),
        };
        let address = client.map(|client| client.address());
        let one = |key| Caller::of(key, address);
        let caller = match &inner.keys {
            Keys::Client => client.map(|client| one(client.key())),
            Keys::Same(key) => key(&incoming).or_else(|| stand_in(client)).map(one),
            Keys::Each(keys) => {
                keys(&incoming).map(|keys| Caller::of_each(keys, address)).or_else(|| stand_in(client).map(one))
            }
        };
        let cost = inner.cost.as_ref().map_or(1, |cost| cost(&incoming));
        Some(Demand {
            picked,
            caller,
            cost,
            #[cfg(all(feature = "macros", feature = "tower"))]
            begun: SystemClock.now(),
        })
    }

    /// The response to a request that is turned away.
    pub fn answer(&self, outcome: &Outcome) -> Response<String> {
        let response = answer::response(outcome, &self.inner.headers, Some(&self.inner.beginning));
        match &self.inner.respond {
            Some(respond) => respond(outcome, response),
            None => response,
        }
    }

    /// The same to one that its limit has turned away: where all that stays the same in such responses is known, no more is
    /// worked out than the rest.
    #[cfg(feature = "tower")]
    #[inline]
    pub(crate) fn deny<B: From<String>>(&self, denial: &Denial<'_>) -> Response<B> {
        let (limit, decision) = (denial.limit(), denial.decision());
        if self.inner.respond.is_none()
            && decision.reason() == Some(Reason::Rate)
            && let Some(wait) = decision.retry_after()
            && let Some(beginning) = self.inner.beginning.of(limit.policy())
            && let Some(told) = self.foretold(limit, decision)
        {
            return answer::denial(wait, beginning, told);
        }
        self.answer(&denial.outcome()).map(B::from)
    }

    /// Writes into the headers of a response what is to be said of an outcome.
    pub fn write_headers(&self, outcome: &Outcome, headers: &mut HeaderMap) {
        self.inner.headers.write(outcome, headers);
    }

    /// The limits that every request meets; none when they are picked for each.
    pub(crate) fn enforcer(&self) -> Option<&Enforcer> {
        match &self.inner.enforcer {
            Which::One(enforcer) => Some(enforcer),
            Which::Picked(_) => None,
        }
    }

    /// The limits that every request meets, where a request is known by one key, costs 1, and leaves nothing behind but the
    /// headers of its response.
    #[cfg(feature = "tower")]
    #[inline]
    pub(super) fn usual(&self) -> Option<&Enforcer> {
        // An attribute may want to give back what was taken.
        if self.inner.usual && !cfg!(feature = "macros") { self.enforcer() } else { None }
    }

    /// What gives a request its key, where that is not its client.
    #[cfg(feature = "tower")]
    #[inline]
    pub(super) fn own_key(&self) -> Option<&KeyOf> {
        if let Keys::Same(key) = &self.inner.keys { Some(&**key) } else { None }
    }

    /// What is asked of the limits before a request goes on.
    pub(super) fn first_step(&self) -> Step {
        if self.charges_later() { Step::Look } else { Step::Take }
    }

    /// Puts the outcome of an admitted request where its handler finds it, if that is wanted.
    #[inline]
    pub(crate) fn tell_handler(&self, outcome: &Outcome, extensions: &mut Extensions) {
        if self.wants_extension() {
            extensions.insert(outcome.clone());
        }
    }

    /// Whether the handler wants to know the outcome.
    pub(super) fn wants_extension(&self) -> bool {
        self.inner.extension
    }

    /// Whether there is anything to be said in the response to an admitted request, under a protocol that tells this much.
    #[cfg(feature = "tower")]
    #[inline]
    pub(crate) fn has_last_word(&self, tells: Tells) -> bool {
        tells != Tells::Nothing && self.inner.says != Says::Nothing
    }

    /// What the headers say of a decision, if that is known already: of one like it they have said something before.
    #[cfg(feature = "tower")]
    #[inline]
    pub(super) fn foretold(&self, limit: &Plainly<'_>, decision: &Decision) -> Option<Told> {
        let Inner { says, headers, .. } = &*self.inner;
        if *says == Says::Ietf { headers.foretold(limit.policy(), limit.window(), decision) } else { None }
    }

    /// Whether the charge waits for the response.
    pub(crate) fn charges_later(&self) -> bool {
        self.inner.charge_when.is_some()
    }

    /// Whether a response is one of those that are charged for.
    pub(super) fn charges(&self, status: StatusCode, headers: &HeaderMap) -> bool {
        self.inner.charge_when.as_ref().is_some_and(|charge| charge(status, headers))
    }

    /// The address at the other end of the connection, where that is the client, has four bytes, and nothing more is looked
    /// at.
    #[cfg(feature = "tower")]
    #[inline]
    pub(super) fn plain_peer(&self, incoming: &Incoming<'_>) -> Option<Ipv4Addr> {
        let Inner { direct, warning, .. } = &*self.inner;
        if *direct && warning.is_over() { incoming.peer_v4() } else { None }
    }

    /// Who has sent a request, as far as that can be known.
    pub(crate) fn client(&self, incoming: &Incoming<'_>) -> Option<Client> {
        let Inner { client_address, warning, .. } = &*self.inner;
        Some(client_address.find_noticing(warning, incoming.peer()?, incoming.headers()))
    }

    fn with(mut self, change: impl FnOnce(&mut Inner)) -> Self {
        let inner = Arc::make_mut(&mut self.inner);
        change(inner);
        #[cfg(feature = "tower")]
        inner.settle();
        self
    }
}

/// The key of a request that has none of its own.
#[cold]
pub(super) fn stand_in(client: Option<Client>) -> Option<Key<'static>> {
    client.map(|client| client.key().standing_in())
}

impl fmt::Debug for RateLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { client_address, headers, .. } = &*self.inner;
        let mut debug = f.debug_struct("RateLimit");
        debug.field("client_address", client_address).field("headers", headers).finish_non_exhaustive()
    }
}
