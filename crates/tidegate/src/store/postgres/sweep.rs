//! Forgetting what is as good as new, in small batches.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tidegate_core::StoreError;
use tokio::runtime::Handle;
use tokio_postgres::types::Type;

use super::PostgresStore;

/// How many decisions go by between two sweeps that come from the calls.
const EVERY: usize = 100;

/// How many rows are deleted at a time: twice as many as could have come with so many decisions.
const BATCH: i64 = 2 * EVERY as i64;

/// When to sweep.
#[derive(Default)]
pub(super) struct Sweeping {
    decisions: AtomicUsize,
    /// A sweep from the calls is under way.
    busy: AtomicBool,
}

impl PostgresStore {
    /// Forgets every key that is as good as new, and says how many they were. Goes by small batches, each in a
    /// transaction of its own that waits for nobody.
    ///
    /// Nobody has to call this: a few are forgotten with every hundredth decision.
    pub async fn sweep(&self) -> Result<u64, StoreError> {
        let mut swept = 0;
        loop {
            let batch = self.sweep_batch().await?;
            swept += batch;
            if batch < BATCH as u64 {
                return Ok(swept);
            }
        }
    }

    async fn sweep_batch(&self) -> Result<u64, StoreError> {
        let connection = self.connection().await?;
        let sweep = &self.asks.statements.sweep;
        let swept = self.client(&connection).change(sweep, &[(&BATCH, Type::INT8)]).await;
        connection.back([&swept]);
        swept
    }

    /// Counts decisions, and lets a batch be swept now and then, beside the calls and not within them.
    pub(super) fn sweep_sometimes(&self, decisions: usize) {
        let now = self.sweeping.decisions.fetch_add(decisions, Ordering::Relaxed) + decisions;
        // Without tokio nothing of this would run, and a call has just come back.
        let Some(runtime) = (now >= EVERY).then(|| Handle::try_current().ok()).flatten() else { return };
        if self.sweeping.busy.swap(true, Ordering::Acquire) {
            return;
        }
        let (store, done) = (self.clone(), Done(Arc::clone(&self.sweeping)));
        runtime.spawn(async move {
            // A batch for every hundred, until there is nothing left to sweep.
            let batches = store.sweeping.decisions.swap(0, Ordering::Relaxed) / EVERY;
            for _ in 0..batches {
                // What is not swept now is swept later; whoever decides sees the same error.
                if store.sweep_batch().await.unwrap_or(0) < BATCH as u64 {
                    break;
                }
            }
            drop(done);
        });
    }
}

/// Says that a sweep has ended, even one that was dropped.
struct Done(Arc<Sweeping>);

impl Drop for Done {
    fn drop(&mut self) {
        self.0.busy.store(false, Ordering::Release);
    }
}

/// How many keys are not as good as new at that time; the others are forgotten.
#[cfg(feature = "testing")]
pub(super) async fn held_at(store: &PostgresStore, at: tidegate_core::Timestamp) -> Result<usize, StoreError> {
    use super::error::store_error;
    use super::found::{Found, read};
    use crate::store::stored::read_quota;

    let (connection, table) = (store.connection().await?, &store.asks.statements.table);
    let every = format!("SELECT 0::bigint, NULL::bytea, state, key, quota FROM {table}");
    let mut held = 0;
    for row in connection.query_typed(&every, &[]).await.map_err(store_error)? {
        let (key, quota): (Vec<u8>, Vec<u8>) = (read(&row, 3)?, read(&row, 4)?);
        let quota = read_quota(&quota)?;
        if Found::look(&row)?.state(&quota, at)?.is_new(&quota, at) {
            let forget = &store.asks.statements.forget;
            store.client(&connection).change(forget, &[(&key, Type::BYTEA)]).await?;
        } else {
            held += 1;
        }
    }
    let held = Ok(held);
    connection.back([&held]);
    held
}
