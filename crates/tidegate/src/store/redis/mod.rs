//! The store on Redis, Valkey or a cluster of them: many processes, one truth.
//!
//! A decision is one script call, or a part of one that others share. The script reads the server's time and what is stored
//! under the key, steps, and writes; it answers with what it found, from which the decision is worked out here by
//! [`step`](tidegate_core::step), the same as for every other store. So the scripts only decide whether something fits and
//! what is left afterwards, and whether they agree with the core is checked with every call. Leases, of which a key may
//! have thousands, are kept in a form of their own, and their script says what is in flight.

mod all;
mod answer;
mod arguments;
mod ask;
mod builder;
mod coalesce;
mod codec;
mod connection;
mod cross_slot;
mod demoted;
mod each;
mod error;
mod keys;
mod lanes;
mod leases;
mod script;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use redis::Value;
use redis::aio::ConnectionManager;
use tidegate_core::{
    Algorithm, Capabilities, Decision, JointDecision, Op, Quota, Request, State, Store, StoreError, Timestamp, step,
};

use crate::store::colocation::Colocation;
use crate::store::stored::{ATTEMPTS, agreed, changing};
use crate::telemetry;
use answer::{Answer, Done};
#[cfg(feature = "testing")]
use arguments::Arguments;
use ask::Ask;
pub use builder::RedisStoreBuilder;
pub use connection::Connection;
pub use cross_slot::CrossSlot;
use demoted::Demoted;
use error::store_error;
use keys::Names;
use lanes::Lanes;
use script::Script;

/// The store on Redis, Valkey or a cluster of them. Clones share the connection.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use tidegate::redis::RedisStore;
/// use tidegate::{Limiter, Quota, minutes};
///
/// let store = RedisStore::connect("redis://127.0.0.1/").await?;
/// let limiter =
///     Limiter::builder().limit("login", Quota::fixed_window(5, minutes(1))?).store(store).build()?;
/// let decision = limiter.limit("login", "alice").await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct RedisStore<C = ConnectionManager> {
    connection: C,
    names: Names,
    min_ttl: u64,
    cross_slot: CrossSlot,
    label: Arc<str>,
    /// None when decisions share no calls.
    lanes: Option<Arc<Lanes>>,
    /// Whether the server, asked as if it were alone, has refused a call about keys of several slots.
    has_slots: Arc<AtomicBool>,
    demoted: Demoted,
}

impl<C: Connection> RedisStore<C> {
    /// One operation on one key.
    async fn decide(&self, request: &Request<'_>, at: Option<Timestamp>) -> Result<Decision, StoreError> {
        let Request { quota, op, .. } = *request;
        if quota.algorithm() == Algorithm::Concurrency {
            let name = self.names.leases(request.scope, request.key);
            return match op {
                Op::Reset => self.forget(&name, quota).await,
                _ => self.decide_leases(&name, request, at).await,
            };
        }
        if op == Op::Reset {
            return self.forget(&self.names.name(request.scope, request.key), quota).await;
        }
        let ask = Arc::new(self.ask(request, at));
        let found = self.answer(&ask).await?;
        self.settle(request, &ask, found).await
    }

    async fn forget(&self, name: &str, quota: &Quota) -> Result<Decision, StoreError> {
        let mut connection = self.connection.clone();
        if let Err(error) = redis::cmd("DEL").arg(name).exec_async(&mut connection).await {
            self.demoted.leave(&mut connection, &error).await;
            return Err(store_error(error));
        }
        // A key that is forgotten is as good as new, whatever the time.
        Ok(step(quota, &mut State::New, Op::Reset, Timestamp::EPOCH).decision)
    }

    /// The decision, once the server has said what it found. None is found where the key has to be asked about alone.
    async fn settle(&self, request: &Request<'_>, ask: &Ask, found: Option<Answer>) -> Result<Decision, StoreError> {
        let Request { quota, op, .. } = *request;
        let mut carried = None;
        let mut found = found;
        for _ in 0..ATTEMPTS {
            let answer = match found.take() {
                Some(answer) => answer,
                None => self.alone(ask, carried.take()).await?,
            };
            let mut state = state(quota, &ask.quota, answer.value.as_deref(), answer.now)?;
            if answer.done == Done::Foreign && !matches!(op, Op::Check(_)) {
                carried = Some(carried_over(&ask.quota, answer.value, &state));
                continue;
            }
            let outcome = step(quota, &mut state, op, answer.now);
            return agreed(outcome.changed, answer.done == Done::Written).map(|()| outcome.decision);
        }
        Err(changing())
    }

    async fn run(&self, script: &Script, keys: &[&str], arguments: &[Vec<u8>]) -> Result<Value, StoreError> {
        let mut connection = self.connection.clone();
        let reloaded = || telemetry::script_reloaded(&self.label);
        let answer = script.run(&mut connection, keys, arguments, reloaded).await;
        if let Err(error) = &answer {
            self.demoted.leave(&mut connection, error).await;
        }
        answer.map_err(store_error)
    }
}

/// What a stored value says, as a state of `quota`, whose bytes are `known`.
fn state(quota: &Quota, known: &[u8], value: Option<&[u8]>, now: Timestamp) -> Result<State, StoreError> {
    let Some(value) = value else { return Ok(State::New) };
    match codec::state_under(known, quota, value)? {
        Some(state) => Ok(state),
        None => codec::rebased(quota, value, now),
    }
}

/// What tells a script to step from `state` if it still finds `value`.
fn carried_over(quota: &[u8], value: Option<Vec<u8>>, state: &State) -> [Vec<u8>; 2] {
    [value.unwrap_or_default(), codec::encode(state, quota)]
}

/// The time as a script takes it: none for the server's.
fn given(at: Option<Timestamp>) -> Vec<u8> {
    at.map_or_else(Vec::new, |at| at.as_micros().to_string().into_bytes())
}

impl<C> fmt::Debug for RedisStore<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Never the secret, and no address, which may carry a password.
        f.debug_struct("RedisStore").field("label", &self.label).finish_non_exhaustive()
    }
}

impl<C: Connection> Store for RedisStore<C> {
    fn capabilities(&self) -> Capabilities {
        Capabilities::default().with_atomic_all(!C::CLUSTER || self.names.colocation == Colocation::Prefix)
    }

    fn try_apply(&self, _: &Request<'_>) -> Option<Result<Decision, StoreError>> {
        None
    }

    async fn apply(&self, request: &Request<'_>) -> Result<Decision, StoreError> {
        self.decide(request, None).await
    }

    async fn apply_all(&self, requests: &[Request<'_>]) -> Result<JointDecision, StoreError> {
        self.decide_all(requests, None).await
    }

    async fn apply_each(&self, requests: &[Request<'_>]) -> Vec<Result<Decision, StoreError>> {
        self.decide_each(requests).await
    }

    async fn close(&self) {}
}

#[cfg(feature = "testing")]
impl<C: Connection> RedisStore<C> {
    /// What a request that steps sends to the server, for programs that send the same themselves, such as
    /// `redis-benchmark`. The server has to know the script, as it does once the store has asked.
    pub fn command(&self, request: &Request<'_>) -> redis::Cmd {
        let name = self.names.name(request.scope, request.key);
        let Arguments { quota, numbers } = Arguments::one(request.quota, request.op, self.min_ttl);
        script::step(request.quota.algorithm()).command(&[&name], &[quota, numbers])
    }
}

#[cfg(feature = "testing")]
impl<C: Connection> tidegate_core::Testing for RedisStore<C> {
    async fn apply_at(&self, request: &Request<'_>, at: Timestamp) -> Result<Decision, StoreError> {
        self.decide(request, Some(at)).await
    }

    async fn apply_all_at(&self, requests: &[Request<'_>], at: Timestamp) -> Result<JointDecision, StoreError> {
        self.decide_all(requests, Some(at)).await
    }

    async fn held_at(&self, _: Timestamp) -> Option<usize> {
        // The server forgets by its own clock.
        None
    }
}
