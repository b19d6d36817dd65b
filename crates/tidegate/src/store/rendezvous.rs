//! Several independent servers as one store. Each process computes the server of a key by itself.

use futures_util::future::join_all;
use tidegate_core::{Capabilities, Decision, JointDecision, Key, Request, Scope, Store, StoreError, StoreErrorKind};

use super::colocation::{Colocation, prefix};

/// Several independent stores as one store. A key lives on the store whose name gives, with the key, the highest hash
/// (rendezvous hashing). Every process finds the same store, and the keys spread evenly. With one more server out of
/// `n`, only that server's share moves, one key in `n`. A key that moves starts as new, as after a reset.
///
/// ```
/// use tidegate::{MemoryStore, RendezvousStore, Colocation};
///
/// let servers = ["one", "two", "three"].map(|name| (name, MemoryStore::new())); // or RedisStore::connect(..)
/// let store = RendezvousStore::new(servers).colocation(Colocation::Key);
/// ```
#[derive(Debug)]
pub struct RendezvousStore<S> {
    servers: Vec<Server<S>>,
    colocation: Colocation,
}

#[derive(Debug)]
struct Server<S> {
    /// The hash of the server's name.
    hash: u64,
    store: S,
}

impl<S: Store> RendezvousStore<S> {
    /// Creates a store over these servers. The name of a server must stay the same wherever the server moves. Their
    /// order does not matter.
    ///
    /// # Panics
    ///
    /// Panics without servers, or when two servers have the same name.
    pub fn new<N: AsRef<str>>(servers: impl IntoIterator<Item = (N, S)>) -> Self {
        let named = servers.into_iter().map(|(name, store)| (name.as_ref().to_owned(), store));
        let mut names = Vec::new();
        let servers = named
            .map(|(name, store)| {
                assert!(!names.contains(&name), "two servers are called {name:?}");
                let hash = Key::from(&name).stable_hash(0);
                names.push(name);
                Server { hash, store }
            })
            .collect();
        assert!(!names.is_empty(), "no server");
        RendezvousStore { servers, colocation: Colocation::None }
    }

    /// Sets which keys live on the same server, and so can be taken all or nothing. Defaults to
    /// [`Colocation::None`].
    #[must_use]
    pub fn colocation(mut self, colocation: Colocation) -> Self {
        self.colocation = colocation;
        self
    }

    /// Returns the index of the server that a key lives on.
    fn server_index(&self, scope: &Scope, key: &Key<'_>) -> usize {
        let hash = match self.colocation {
            Colocation::None => key.stable_hash(scope.stable_hash()),
            Colocation::Key => key.stable_hash(0),
            Colocation::Prefix => Key::from(prefix(scope)).stable_hash(0),
        };
        let score = |index: &usize| Key::from(hash).stable_hash(self.servers[*index].hash);
        (0..self.servers.len()).max_by_key(score).expect("there is a server")
    }

    fn server(&self, request: &Request<'_>) -> &S {
        &self.servers[self.server_index(request.scope, request.key)].store
    }

    /// Returns the one server on which the keys of all requests live.
    fn common_server(&self, requests: &[Request<'_>]) -> Result<&S, StoreError> {
        let mut indices = requests.iter().map(|request| self.server_index(request.scope, request.key));
        let first = indices.next().unwrap_or(0);
        if indices.all(|index| index == first) {
            return Ok(&self.servers[first].store);
        }
        let why = "all-or-nothing over keys that live on different servers: let them live together (RendezvousStore::colocation)";
        Err(StoreError::new(StoreErrorKind::Unsupported, why))
    }
}

impl<S: Store> Store for RendezvousStore<S> {
    fn capabilities(&self) -> Capabilities {
        let is_colocated = self.servers.len() == 1 || self.colocation == Colocation::Prefix;
        let all = |has: fn(Capabilities) -> bool| self.servers.iter().all(|server| has(server.store.capabilities()));
        Capabilities::default()
            .with_atomic_all(is_colocated && all(|server| server.atomic_all))
            .with_failure_policy(all(|server| server.failure_policy))
    }

    /// Returns `false`: a call over several servers awaits all of them.
    fn is_immediate(&self) -> bool {
        false
    }

    fn prefetch(&self, scope: &Scope, key: &Key<'_>) {
        self.servers[self.server_index(scope, key)].store.prefetch(scope, key);
    }

    /// Returns the index of the key's server. Beyond 64, servers share parts.
    fn partition(&self, scope: &Scope, key: &Key<'_>) -> u8 {
        (self.server_index(scope, key) % 64) as u8
    }

    fn try_apply(&self, request: &Request<'_>) -> Option<Result<Decision, StoreError>> {
        self.server(request).try_apply(request)
    }

    async fn apply(&self, request: &Request<'_>) -> Result<Decision, StoreError> {
        self.server(request).apply(request).await
    }

    async fn apply_all(&self, requests: &[Request<'_>]) -> Result<JointDecision, StoreError> {
        self.common_server(requests)?.apply_all(requests).await
    }

    async fn apply_each(&self, requests: &[Request<'_>]) -> Vec<Result<Decision, StoreError>> {
        let indices: Vec<_> = requests.iter().map(|request| self.server_index(request.scope, request.key)).collect();
        let shares = self.servers.iter().enumerate().map(|(number, server)| {
            let share: Vec<_> =
                requests.iter().zip(&indices).filter(|(_, index)| **index == number).map(|(r, _)| *r).collect();
            // A server without requests is not called.
            async move { if share.is_empty() { Vec::new() } else { server.store.apply_each(&share).await } }
        });
        let mut results: Vec<_> = join_all(shares).await.into_iter().map(Vec::into_iter).collect();
        indices.iter().map(|index| results[*index].next().expect("a result for each request")).collect()
    }

    async fn close(&self) {
        join_all(self.servers.iter().map(|server| server.store.close())).await;
    }
}

#[cfg(feature = "testing")]
impl<S: tidegate_core::TestableStore> tidegate_core::TestableStore for RendezvousStore<S> {
    async fn apply_at(&self, request: &Request<'_>, at: tidegate_core::Timestamp) -> Result<Decision, StoreError> {
        self.server(request).apply_at(request, at).await
    }

    async fn apply_all_at(
        &self,
        requests: &[Request<'_>],
        at: tidegate_core::Timestamp,
    ) -> Result<JointDecision, StoreError> {
        self.common_server(requests)?.apply_all_at(requests, at).await
    }

    async fn sweep_at(&self, at: tidegate_core::Timestamp) -> Option<usize> {
        let held = join_all(self.servers.iter().map(|server| server.store.sweep_at(at))).await;
        held.into_iter().sum()
    }
}
