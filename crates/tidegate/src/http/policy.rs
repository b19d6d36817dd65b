//! The policy of a service: keys, costs, exemptions, charges and responses of its limits.

use std::fmt;
use std::sync::Arc;

use http::{Extensions, HeaderMap, Response, StatusCode};
use tidegate_core::Key;

use super::{Client, ClientAddress, ForwardingWarning, LimitHeaders, PendingRequest, RequestHead, problem};
#[cfg(all(feature = "macros", feature = "tower"))]
use crate::clock::{Clock, SystemClock};
use crate::enforce::{Action, Caller, Enforcer, Outcome};

type RequestFn<T> = Arc<dyn Fn(&RequestHead<'_>) -> T + Send + Sync>;
type ChargeFn = Arc<dyn Fn(StatusCode, &HeaderMap) -> bool + Send + Sync>;
type MapResponseFn = Arc<dyn Fn(&Outcome, Response<String>) -> Response<String> + Send + Sync>;

/// The policy of a service: the key and the cost of a request, the requests that are skipped, and the response to a denied
/// one. Shared by every transport that speaks HTTP. Cheap to clone.
///
/// ```
/// use tidegate::http::{HeaderStyle, LimitHeaders, RateLimit, keys};
/// use tidegate::{Limiter, Quota, minutes};
///
/// let limiter = Limiter::builder().limit("login", Quota::fixed_window(5, minutes(1))?).build()?;
/// let login = RateLimit::new(limiter.enforcer("login")?)
///     .headers(LimitHeaders::new([HeaderStyle::Ietf, HeaderStyle::Legacy]))
///     .skip(|head| head.is_preflight())
///     .charge_when(|status, _| status == 401); // only failed logins count
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct RateLimit {
    inner: Arc<Inner>,
}

#[derive(Clone)]
struct Inner {
    keys: KeySource,
    cost: Option<RequestFn<u64>>,
    skip: Option<RequestFn<bool>>,
    charge_when: Option<ChargeFn>,
    extension: bool,
    enforcer: EnforcerChoice,
    warning: Arc<ForwardingWarning>,
    client_address: ClientAddress,
    headers: LimitHeaders,
    map_response: Option<MapResponseFn>,
}

/// The limits of a request.
#[derive(Clone)]
enum EnforcerChoice {
    Fixed(Enforcer),
    Picked(RequestFn<Enforcer>),
}

/// The source of a request's keys.
#[derive(Clone)]
enum KeySource {
    /// The client's address, as in [`keys::client`](super::keys::client).
    Client,
    Common(RequestFn<Option<Key<'static>>>),
    PerLimit(RequestFn<Option<Vec<Key<'static>>>>),
}

impl<L: Into<Enforcer>> From<L> for RateLimit {
    fn from(limits: L) -> Self {
        RateLimit::new(limits)
    }
}

impl RateLimit {
    /// Creates a policy that enforces an [`Enforcer`] (`limiter.enforcer("api")?`) or a bare quota, for each client
    /// separately.
    pub fn new(limits: impl Into<Enforcer>) -> Self {
        Self::from_choice(EnforcerChoice::Fixed(limits.into()))
    }

    /// Creates a policy that picks an enforcer for each request: other limits for premium users, another limiter for
    /// each tenant. Build the enforcers beforehand and return clones. If a plan's numbers come from a database, set the
    /// quota on the clone ([`Enforcer::with_quota`]), which allocates. An outer layer must have loaded the numbers,
    /// because `pick` cannot wait.
    pub fn pick(pick: impl Fn(&RequestHead<'_>) -> Enforcer + Send + Sync + 'static) -> Self {
        Self::from_choice(EnforcerChoice::Picked(Arc::new(pick)))
    }

    /// Creates a policy without limits, for an admission that only bounds requests in flight.
    pub fn unlimited() -> Self {
        Self::new(Enforcer::unlimited())
    }

    fn from_choice(enforcer: EnforcerChoice) -> Self {
        let inner = Inner {
            keys: KeySource::Client,
            cost: None,
            skip: None,
            charge_when: None,
            extension: false,
            enforcer,
            warning: Arc::default(),
            client_address: ClientAddress::new(),
            headers: LimitHeaders::default(),
            map_response: None,
        };
        RateLimit { inner: Arc::new(inner) }
    }

    /// Sets the key that a request counts under; see [`keys`](super::keys) for functions. Defaults to the client's
    /// address, which is also used for requests without a key.
    #[must_use]
    pub fn key(self, key: impl Fn(&RequestHead<'_>) -> Option<Key<'static>> + Send + Sync + 'static) -> Self {
        self.with(|inner| inner.keys = KeySource::Common(Arc::new(key)))
    }

    /// Sets one key for each of several limits, in the order of the enforcer. Defaults to the client's address for all
    /// of them.
    ///
    /// On `None`, every limit falls back to the client address, including global ones ([`Key::GLOBAL`]). Where only one key
    /// is missing, return another in its place.
    #[must_use]
    pub fn key_each(
        self,
        keys: impl Fn(&RequestHead<'_>) -> Option<Vec<Key<'static>>> + Send + Sync + 'static,
    ) -> Self {
        self.with(|inner| inner.keys = KeySource::PerLimit(Arc::new(keys)))
    }

    /// Sets the cost of every request. Defaults to 1.
    #[must_use]
    pub fn cost(self, cost: u64) -> Self {
        self.cost_of(move |_| cost)
    }

    /// Computes the cost of a request. A cost of 0 is a mistake in the program and answered with 500. Use `max(1)` if
    /// clients influence the cost.
    #[must_use]
    pub fn cost_of(self, cost: impl Fn(&RequestHead<'_>) -> u64 + Send + Sync + 'static) -> Self {
        self.with(|inner| inner.cost = Some(Arc::new(cost)))
    }

    /// Skips requests, such as health checks, or [preflights](RequestHead::is_preflight).
    #[must_use]
    pub fn skip(self, skip: impl Fn(&RequestHead<'_>) -> bool + Send + Sync + 'static) -> Self {
        self.with(|inner| inner.skip = Some(Arc::new(skip)))
    }

    /// Checks the quota first, and charges only when the response is known and `charge` returns true, as for failed
    /// logins. Concurrently admitted requests are all charged, which may make debt. Nothing is charged without a
    /// response, because the client disconnected or the service failed with an error.
    #[must_use]
    pub fn charge_when(self, charge: impl Fn(StatusCode, &HeaderMap) -> bool + Send + Sync + 'static) -> Self {
        self.with(|inner| inner.charge_when = Some(Arc::new(charge)))
    }

    /// Sets how the address of a client is found. Defaults to the connection's peer.
    #[must_use]
    pub fn client_address(self, client_address: ClientAddress) -> Self {
        self.with(|inner| inner.client_address = client_address)
    }

    /// Sets the headers that describe limits to clients.
    #[must_use]
    pub fn headers(self, headers: LimitHeaders) -> Self {
        self.with(|inner| inner.headers = headers)
    }

    /// Changes the response to a denied request, which already has its status, headers and body. A transport with its
    /// own responses, such as gRPC, does not call it.
    #[must_use]
    pub fn map_response(
        self,
        map_response: impl Fn(&Outcome, Response<String>) -> Response<String> + Send + Sync + 'static,
    ) -> Self {
        self.with(|inner| inner.map_response = Some(Arc::new(map_response)))
    }

    /// Puts the [`Outcome`] of an admitted request into its extensions, for the handler. It costs an allocation.
    #[must_use]
    pub fn extension(self) -> Self {
        self.with(|inner| inner.extension = true)
    }

    /// Begins a request. Returns `None` for a skipped request.
    pub fn begin(&self, head: &RequestHead<'_>) -> Option<PendingRequest> {
        let inner = &*self.inner;
        let client = self.client(head);
        let head = head.with_client(client.as_ref());
        if inner.skip.as_ref().is_some_and(|skip| skip(&head)) {
            return None;
        }
        let picked = match &inner.enforcer {
            EnforcerChoice::Fixed(_) => None,
            EnforcerChoice::Picked(pick) => Some(pick(&head)),
        };
        let address = client.map(|client| client.address());
        let one = |key| Caller::from_key(key, address);
        let fallback = || client.map(|client| one(client.key().to_fallback()));
        let caller = match &inner.keys {
            KeySource::Client => client.map(|client| one(client.key())),
            KeySource::Common(key) => key(&head).map(one).or_else(fallback),
            KeySource::PerLimit(keys) => keys(&head).map(|keys| Caller::from_keys(keys, address)).or_else(fallback),
        };
        let cost = inner.cost.as_ref().map_or(1, |cost| cost(&head));
        Some(PendingRequest {
            rate_limit: self.clone(),
            picked_enforcer: picked,
            caller,
            cost,
            #[cfg(all(feature = "macros", feature = "tower"))]
            started_at: SystemClock.now(),
        })
    }

    /// Returns the response to a denied request.
    pub fn response(&self, outcome: &Outcome) -> Response<String> {
        let response = problem::response(outcome, &self.inner.headers);
        match &self.inner.map_response {
            Some(map_response) => map_response(outcome, response),
            None => response,
        }
    }

    /// Writes the headers of an outcome into a response.
    pub fn write_headers(&self, outcome: &Outcome, headers: &mut HeaderMap) {
        self.inner.headers.write(outcome, headers);
    }

    /// Returns the limits of every request, or `None` when they are picked for each request.
    pub(crate) fn enforcer(&self) -> Option<&Enforcer> {
        match &self.inner.enforcer {
            EnforcerChoice::Fixed(enforcer) => Some(enforcer),
            EnforcerChoice::Picked(_) => None,
        }
    }

    /// Returns the action before a request goes on: a check if the charge waits for the response.
    pub(super) fn first_action(&self) -> Action {
        if self.charges_later() { Action::Check } else { Action::Limit }
    }

    /// Adds the outcome of an admitted request to its extensions, if [`Self::extension`] is set.
    #[inline]
    pub(crate) fn insert_outcome(&self, outcome: &Outcome, extensions: &mut Extensions) {
        if self.wants_extension() {
            extensions.insert(outcome.clone());
        }
    }

    /// Returns whether the handler wants the outcome.
    pub(super) fn wants_extension(&self) -> bool {
        self.inner.extension
    }

    /// Returns whether the charge waits for the response.
    pub(crate) fn charges_later(&self) -> bool {
        self.inner.charge_when.is_some()
    }

    /// Returns whether a response must be charged.
    pub(super) fn charges(&self, status: StatusCode, headers: &HeaderMap) -> bool {
        self.inner.charge_when.as_ref().is_some_and(|charge| charge(status, headers))
    }

    /// Returns the client that sent a request, if its address is known.
    pub(crate) fn client(&self, head: &RequestHead<'_>) -> Option<Client> {
        let Inner { client_address, warning, .. } = &*self.inner;
        Some(client_address.find_and_warn(warning, head.peer()?, head.headers()))
    }

    fn with(mut self, change: impl FnOnce(&mut Inner)) -> Self {
        change(Arc::make_mut(&mut self.inner));
        self
    }
}

impl fmt::Debug for RateLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { client_address, headers, .. } = &*self.inner;
        let mut debug = f.debug_struct("RateLimit");
        debug.field("client_address", client_address).field("headers", headers).finish_non_exhaustive()
    }
}
