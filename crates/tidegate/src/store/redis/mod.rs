//! The store on Redis, Valkey or a cluster of them, which many processes share.
//!
//! A decision is one script call, or a part of one that decisions share. The script reads the server's time and the
//! stored value, steps, and writes. It replies with the value it found, from which [`step`] makes
//! the decision here, as for every other store. So the scripts only decide whether a cost fits and what is left
//! afterwards, and every call checks that they agree with the core. Leases, of which a key may have thousands, are kept
//! in a form of their own, and their script counts those in flight.

mod arguments;
mod batch;
mod batcher;
mod builder;
mod cluster;
mod connection;
mod error;
mod failover;
mod joint;
mod keys;
mod leases;
mod operation;
mod reply;
mod script;
mod slot;
mod value;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use redis::Value;
use redis::aio::ConnectionManager;
use tidegate_core::{
    Algorithm, Capabilities, Decision, JointDecision, Key, Op, Quota, Request, Scope, State, Store, StoreError,
    Timestamp, step,
};

use crate::store::codec::{MAX_REBASE_ATTEMPTS, check_agreement, contended};
use crate::store::colocation::Colocation;
use crate::telemetry;
#[cfg(feature = "testing")]
use arguments::StepArguments;
use batcher::Batcher;
pub use builder::RedisStoreBuilder;
pub use cluster::ClusterConnection;
pub use connection::Connection;
use error::store_error;
use failover::Failover;
pub use joint::CrossSlot;
use keys::KeyNames;
use operation::StateOperation;
use reply::{Effect, KeyReply};
use script::Script;
use slot::Slot;

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
    key_names: KeyNames,
    min_ttl: u64,
    cross_slot: CrossSlot,
    label: Arc<str>,
    /// None when decisions share no calls.
    batcher: Option<Arc<Batcher>>,
    /// Whether the server has slots although the connection is to one server: it has refused a call over several of
    /// them.
    has_slots: Arc<AtomicBool>,
    failover: Failover,
}

impl<C: Connection> RedisStore<C> {
    /// Decides one operation on one key.
    async fn decide(&self, request: &Request<'_>, at: Option<Timestamp>) -> Result<Decision, StoreError> {
        let Request { quota, op, .. } = *request;
        if quota.algorithm() == Algorithm::Concurrency {
            let name = self.key_names.leases_name(request.scope, request.key);
            return match op {
                Op::Reset => self.reset(&name, quota).await,
                _ => self.decide_leases(&name, request, at).await,
            };
        }
        if op == Op::Reset {
            return self.reset(&self.key_names.state_name(request.scope, request.key), quota).await;
        }
        let operation = Arc::new(self.operation(request, at));
        let reply = self.run_coalesced(&operation).await?;
        self.decide_from_reply(request, &operation, reply).await
    }

    async fn reset(&self, name: &str, quota: &Quota) -> Result<Decision, StoreError> {
        if let Err(error) = self.connection.send(name, redis::cmd("DEL").arg(name)).await {
            self.failover.close_if_replica(&self.connection, &error).await;
            return Err(store_error(error));
        }
        // A deleted key is as good as new, whatever the time.
        Ok(step(quota, &mut State::New, Op::Reset, Timestamp::EPOCH).decision)
    }

    /// Decides from the reply of the server. Without a reply, the operation needs a call of its own.
    async fn decide_from_reply(
        &self,
        request: &Request<'_>,
        operation: &StateOperation,
        reply: Option<KeyReply>,
    ) -> Result<Decision, StoreError> {
        let Request { quota, op, .. } = *request;
        let mut replacement = None;
        let mut next_reply = reply;
        for _ in 0..MAX_REBASE_ATTEMPTS {
            let reply = match next_reply.take() {
                Some(reply) => reply,
                None => self.run_single(operation, replacement.take()).await?,
            };
            let mut state = decode_state(quota, &operation.quota, reply.value.as_deref(), reply.now)?;
            if reply.effect == Effect::OtherQuota && !matches!(op, Op::Check(_)) {
                replacement = Some(replacement_arguments(&operation.quota, reply.value, &state));
                continue;
            }
            let result = step(quota, &mut state, op, reply.now);
            return check_agreement(result.changed, reply.effect == Effect::Written).map(|()| result.decision);
        }
        Err(contended())
    }

    async fn run_script(&self, script: &Script, keys: &[&str], arguments: &[Vec<u8>]) -> Result<Value, StoreError> {
        let on_reload = || telemetry::record_script_reload(&self.label);
        let reply = script.run(&self.connection, keys, arguments, on_reload).await;
        if let Err(error) = &reply {
            self.failover.close_if_replica(&self.connection, error).await;
        }
        reply.map_err(store_error)
    }
}

/// Decodes a stored value as a state of `quota`, whose bytes are `quota_bytes`.
fn decode_state(quota: &Quota, quota_bytes: &[u8], value: Option<&[u8]>, now: Timestamp) -> Result<State, StoreError> {
    let Some(value) = value else { return Ok(State::New) };
    match value::decode_if_same_quota(quota_bytes, quota, value)? {
        Some(state) => Ok(state),
        None => value::decode_rebased(quota, value, now),
    }
}

/// The arguments with which a script steps from the rebased `state` if it still finds `value`.
fn replacement_arguments(quota: &[u8], value: Option<Vec<u8>>, state: &State) -> [Vec<u8>; 2] {
    [value.unwrap_or_default(), value::encode(state, quota)]
}

impl<C> fmt::Debug for RedisStore<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Never the secret, and no address, which may carry a password.
        f.debug_struct("RedisStore").field("label", &self.label).finish_non_exhaustive()
    }
}

impl<C: Connection> Store for RedisStore<C> {
    fn capabilities(&self) -> Capabilities {
        Capabilities::default().with_atomic_all(!C::IS_CLUSTER || self.key_names.colocation == Colocation::Prefix)
    }

    /// In a cluster, 256 neighbouring slots: a node that fails takes some of these ranges along, and a slot that moves one.
    fn partition(&self, scope: &Scope, key: &Key<'_>) -> u8 {
        if C::IS_CLUSTER { Slot::of_name(&self.key_names.state_name(scope, key)).partition() } else { 0 }
    }

    fn try_apply(&self, _: &Request<'_>) -> Option<Result<Decision, StoreError>> {
        None
    }

    async fn apply(&self, request: &Request<'_>) -> Result<Decision, StoreError> {
        self.decide(request, None).await
    }

    async fn apply_all(&self, requests: &[Request<'_>]) -> Result<JointDecision, StoreError> {
        self.decide_joint(requests, None).await
    }

    async fn apply_each(&self, requests: &[Request<'_>]) -> Vec<Result<Decision, StoreError>> {
        self.decide_batch(requests).await
    }

    async fn close(&self) {}
}

#[cfg(feature = "testing")]
impl<C: Connection> RedisStore<C> {
    /// The command that a request which steps sends to the server, for programs that send it themselves, such as
    /// `redis-benchmark`. The server must know the script, as it does once the store has called it.
    pub fn command(&self, request: &Request<'_>) -> redis::Cmd {
        let name = self.key_names.state_name(request.scope, request.key);
        let StepArguments { quota, numbers } = StepArguments::from_op(request.quota, request.op, self.min_ttl);
        script::step_script(request.quota.algorithm()).command(&[&name], &[quota, numbers])
    }
}

#[cfg(feature = "testing")]
impl<C: Connection> tidegate_core::TestableStore for RedisStore<C> {
    async fn apply_at(&self, request: &Request<'_>, at: Timestamp) -> Result<Decision, StoreError> {
        self.decide(request, Some(at)).await
    }

    async fn apply_all_at(&self, requests: &[Request<'_>], at: Timestamp) -> Result<JointDecision, StoreError> {
        self.decide_joint(requests, Some(at)).await
    }

    async fn sweep_at(&self, _: Timestamp) -> Option<usize> {
        // The server forgets by its own clock.
        None
    }
}
