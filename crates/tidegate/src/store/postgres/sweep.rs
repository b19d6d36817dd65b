//! Sweeps of expired rows, in small batches.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tidegate_core::StoreError;
use tokio::runtime::Handle;
use tokio_postgres::types::Type;

use super::PostgresStore;

/// The number of decisions between two sweeps that the calls start.
const DECISIONS_PER_SWEEP: usize = 100;

/// The most rows in one sweep: twice as many as that number of decisions can add.
const SWEEP_ROWS: i64 = 2 * DECISIONS_PER_SWEEP as i64;

/// The state of the sweeps that the calls start.
#[derive(Default)]
pub(super) struct SweepState {
    /// The number of decisions since the last sweep.
    decisions: AtomicUsize,
    is_running: AtomicBool,
}

impl PostgresStore {
    /// Deletes the rows of all keys that are as good as new, and returns their number. It works in small batches. Each
    /// is a separate transaction that skips locked rows.
    ///
    /// Calling this is optional: every hundredth decision starts a small sweep.
    pub async fn sweep(&self) -> Result<u64, StoreError> {
        let mut swept = 0;
        loop {
            let batch = self.sweep_batch().await?;
            swept += batch;
            if batch < SWEEP_ROWS as u64 {
                return Ok(swept);
            }
        }
    }

    async fn sweep_batch(&self) -> Result<u64, StoreError> {
        let connection = self.connection().await?;
        let sweep = &self.queries.statements.sweep;
        let swept = self.client(&connection).execute(sweep, &[(&SWEEP_ROWS, Type::INT8)]).await;
        connection.release([&swept]);
        swept
    }

    /// Counts decisions, and spawns a sweep after every hundred. No call waits for it.
    pub(super) fn record_decisions(&self, decisions: usize) {
        let total = self.sweep_state.decisions.fetch_add(decisions, Ordering::Relaxed) + decisions;
        // The pool needs tokio, so the call that has just ended ran on a runtime.
        let Some(runtime) = (total >= DECISIONS_PER_SWEEP).then(|| Handle::try_current().ok()).flatten() else {
            return;
        };
        if self.sweep_state.is_running.swap(true, Ordering::Acquire) {
            return;
        }
        let (store, guard) = (self.clone(), SweepGuard(Arc::clone(&self.sweep_state)));
        runtime.spawn(async move {
            // One batch for every hundred decisions, until no expired row is left.
            let batches = store.sweep_state.decisions.swap(0, Ordering::Relaxed) / DECISIONS_PER_SWEEP;
            for _ in 0..batches {
                // A later sweep retries after an error, and the decisions report the same error.
                if store.sweep_batch().await.unwrap_or(0) < SWEEP_ROWS as u64 {
                    break;
                }
            }
            drop(guard);
        });
    }
}

/// A guard of the running sweep. Dropping it lets the next one start.
struct SweepGuard(Arc<SweepState>);

impl Drop for SweepGuard {
    fn drop(&mut self) {
        self.0.is_running.store(false, Ordering::Release);
    }
}

/// Deletes the rows that are as good as new at that time, and returns how many are left.
#[cfg(feature = "testing")]
pub(super) async fn sweep_at(store: &PostgresStore, at: tidegate_core::Timestamp) -> Result<usize, StoreError> {
    use super::error::store_error;
    use super::reply::{RowSnapshot, column};
    use crate::store::codec::decode_quota;

    let (connection, table) = (store.connection().await?, &store.queries.statements.table);
    let select_all = format!("SELECT 0::bigint, NULL::bytea, state, key, quota FROM {table}");
    let mut used = 0;
    for row in connection.query_typed(&select_all, &[]).await.map_err(store_error)? {
        let (key, quota): (Vec<u8>, Vec<u8>) = (column(&row, 3)?, column(&row, 4)?);
        let quota = decode_quota(&quota)?;
        if RowSnapshot::parse_check(&row)?.state_under(&quota, at)?.is_new(&quota, at) {
            let forget = &store.queries.statements.forget;
            store.client(&connection).execute(forget, &[(&key, Type::BYTEA)]).await?;
        } else {
            used += 1;
        }
    }
    let used = Ok(used);
    connection.release([&used]);
    used
}
