//! Decisions inside a transaction of the caller.

use tidegate_core::{Decision, JointDecision, Request, StoreError};
use tokio_postgres::Transaction;

use super::PostgresStore;
use super::client::Client;
use crate::store::Decider;
use crate::store::codec::decide_by_key;

/// A handle that decides calls inside a transaction of the caller. See [`PostgresStore::in_transaction`].
pub struct InTransaction<'t> {
    store: PostgresStore,
    transaction: &'t Transaction<'t>,
}

impl PostgresStore {
    /// Decides inside a transaction of the caller, on any connection. Units are taken when the transaction commits, and
    /// never if it is rolled back.
    ///
    /// ```no_run
    /// # use tidegate::{Limiter, postgres::PostgresStore};
    /// # async fn example(
    /// #     limiter: Limiter, store: PostgresStore, mut client: tokio_postgres::Client,
    /// # ) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut tx = client.transaction().await?;
    /// let decision = store.in_transaction(&mut tx).apply(limiter.limit("orders", "alice")).await?;
    /// if decision.allowed() {
    ///     tx.execute("INSERT INTO orders (owner) VALUES ('alice')", &[]).await?;
    ///     tx.commit().await?; // both, or neither
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// The key's row is locked until the transaction ends, and all other callers of that key wait: call late, and
    /// commit soon. An error concerns the transaction, so no failure policy applies to it.
    pub fn in_transaction<'t>(&self, transaction: &'t mut Transaction<'_>) -> InTransaction<'t> {
        InTransaction { store: self.clone(), transaction }
    }
}

impl Decider for InTransaction<'_> {
    async fn decide(&self, request: &Request<'_>) -> Result<Decision, StoreError> {
        let decision = self.store.queries.decide(Client::Transaction(self.transaction), request, None).await;
        self.store.record_decisions(1);
        decision
    }

    async fn decide_all(&self, requests: &[Request<'_>]) -> Result<JointDecision, StoreError> {
        let joint = self.store.queries.decide_joint(Client::Transaction(self.transaction), requests, None).await;
        self.store.record_decisions(requests.len());
        joint
    }

    async fn decide_each(&self, requests: &[Request<'_>]) -> Vec<Result<Decision, StoreError>> {
        decide_by_key(requests, |index| self.decide(&requests[index])).await
    }
}
