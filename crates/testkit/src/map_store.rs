//! `MapStore`: a minimal store, one lock around one map.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tidegate_core::{
    Capabilities, Cost, Decision, JointDecision, JointEntry, Op, Quota, Request, State, Store, StoreError,
    StoreErrorKind, TestableStore, Timestamp, step, step_all,
};

/// A minimal store. The suite is tested on it, and new stores can copy it.
///
/// One lock around one map makes every call and every batch atomic. Its clock stands still at the time of
/// [`MapStore::set_now`].
#[derive(Debug, Default)]
pub struct MapStore {
    keys: Mutex<HashMap<String, StoredState>>,
    now: AtomicU64,
}

/// A state and the quota that wrote it.
type StoredState = (Quota, State);

impl MapStore {
    /// Creates an empty store, whose clock stands in November 2023.
    pub fn new() -> Self {
        MapStore { keys: Mutex::default(), now: AtomicU64::new(1_700_000_000_000_000) }
    }

    /// Sets the store's clock to `now`.
    pub fn set_now(&self, now: Timestamp) {
        self.now.store(now.as_micros(), Ordering::SeqCst);
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.now.load(Ordering::SeqCst))
    }

    fn keys(&self) -> MutexGuard<'_, HashMap<String, StoredState>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn decide(&self, request: &Request<'_>, now: Timestamp) -> Decision {
        let mut keys = self.keys();
        let name = key_name(request);
        let mut state = read(&keys, &name, request.quota, now);
        let outcome = step(request.quota, &mut state, request.op, now);
        // A check and a denial write nothing, not even the rebased state.
        if outcome.changed {
            write(&mut keys, name, request.quota, state);
        }
        outcome.decision
    }

    fn decide_all(&self, requests: &[Request<'_>], now: Timestamp) -> Result<JointDecision, StoreError> {
        let costs = requests.iter().map(limit_cost).collect::<Result<Vec<Cost>, StoreError>>()?;
        let mut keys = self.keys();
        let mut names: Vec<String> = Vec::new();
        let mut states: Vec<State> = Vec::new();
        let mut entries: Vec<JointEntry<'_>> = Vec::new();
        for (request, cost) in requests.iter().zip(costs) {
            let name = key_name(request);
            let state = names.iter().position(|known| *known == name).unwrap_or(names.len());
            if state == names.len() {
                states.push(read(&keys, &name, request.quota, now));
                names.push(name);
            } else if entries.iter().any(|entry| entry.state == state && entry.quota != request.quota) {
                return Err(StoreError::new(StoreErrorKind::Unsupported, "one key under two quotas in one batch"));
            }
            entries.push(JointEntry { quota: request.quota, cost, state });
        }
        let all = step_all(&entries, &mut states, now);
        if all.allowed() {
            for (index, (name, state)) in names.into_iter().zip(states).enumerate() {
                let entry = entries.iter().find(|entry| entry.state == index).expect("every state has an entry");
                write(&mut keys, name, entry.quota, state);
            }
        }
        Ok(all)
    }
}

/// Returns the name of a request's key. Both texts are escaped. The scope is preceded by its length, so a line break in
/// it cannot forge a name.
fn key_name(request: &Request<'_>) -> String {
    format!("{}:{}{}", request.scope.as_str().len(), request.scope.as_str(), request.key.to_text())
}

fn limit_cost(request: &Request<'_>) -> Result<Cost, StoreError> {
    match request.op {
        Op::Limit(cost) if request.quota.supports(request.op) => Ok(cost),
        _ => Err(StoreError::new(
            StoreErrorKind::Unsupported,
            "only `limit` can be asked all or nothing, and not of leases",
        )),
    }
}

/// Returns the state of a key at `now`, as a state of `quota`.
fn read(keys: &HashMap<String, StoredState>, name: &str, quota: &Quota, now: Timestamp) -> State {
    match keys.get(name) {
        None => State::New,
        Some((from, state)) => state.clone().rebase(from, quota, now),
    }
}

fn write(keys: &mut HashMap<String, StoredState>, name: String, quota: &Quota, state: State) {
    match state {
        State::New => keys.remove(&name),
        state => keys.insert(name, (*quota, state)),
    };
}

impl Store for MapStore {
    fn capabilities(&self) -> Capabilities {
        Capabilities::default().with_atomic_all(true)
    }

    fn is_immediate(&self) -> bool {
        true
    }

    fn try_apply(&self, request: &Request<'_>) -> Option<Result<Decision, StoreError>> {
        Some(Ok(self.decide(request, self.now())))
    }

    async fn apply(&self, request: &Request<'_>) -> Result<Decision, StoreError> {
        Ok(self.decide(request, self.now()))
    }

    async fn apply_all(&self, requests: &[Request<'_>]) -> Result<JointDecision, StoreError> {
        self.decide_all(requests, self.now())
    }

    async fn apply_each(&self, requests: &[Request<'_>]) -> Vec<Result<Decision, StoreError>> {
        requests.iter().map(|request| Ok(self.decide(request, self.now()))).collect()
    }

    async fn close(&self) {}
}

impl TestableStore for MapStore {
    async fn apply_at(&self, request: &Request<'_>, at: Timestamp) -> Result<Decision, StoreError> {
        Ok(self.decide(request, at))
    }

    async fn apply_all_at(&self, requests: &[Request<'_>], at: Timestamp) -> Result<JointDecision, StoreError> {
        self.decide_all(requests, at)
    }

    async fn sweep_at(&self, at: Timestamp) -> Option<usize> {
        let mut keys = self.keys();
        keys.retain(|_, (quota, state)| !state.is_new(quota, at));
        Some(keys.len())
    }
}
