//! Connections and transactions that run statements.

use deadpool_postgres::Object;
use tidegate_core::StoreError;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Row, Transaction};

use super::error::store_error;

/// A parameter and its type. With the type, the driver need not ask the database for it.
pub(super) type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

/// A connection or a transaction that runs statements.
#[derive(Clone, Copy)]
pub(super) enum Client<'a> {
    /// A connection of the pool. It sends every statement in one piece and leaves nothing behind, because a pooler may run
    /// the next one on another connection.
    Unprepared(&'a Object),
    /// A connection of the pool that prepares every statement once.
    Prepared(&'a Object),
    /// A transaction of the caller.
    Transaction(&'a Transaction<'a>),
}

impl Client<'_> {
    /// Runs a statement, and returns its one row.
    pub(super) async fn query_one(self, statement: &str, parameters: &[Parameter<'_>]) -> Result<Row, StoreError> {
        let row = match self {
            Client::Unprepared(connection) => connection.query_typed_one(statement, parameters).await,
            Client::Transaction(transaction) => transaction.query_typed_one(statement, parameters).await,
            Client::Prepared(connection) => {
                let (values, types): (Vec<_>, Vec<_>) = parameters.iter().cloned().unzip();
                let statement = connection.prepare_typed_cached(statement, &types).await.map_err(store_error)?;
                connection.query_one(&statement, &values).await
            }
        };
        row.map_err(store_error)
    }

    /// Runs a statement, and returns the number of rows that it changed.
    pub(super) async fn execute(self, statement: &str, parameters: &[Parameter<'_>]) -> Result<u64, StoreError> {
        let changed = match self {
            Client::Unprepared(connection) | Client::Prepared(connection) => {
                connection.execute_typed(statement, parameters).await
            }
            Client::Transaction(transaction) => transaction.execute_typed(statement, parameters).await,
        };
        changed.map_err(store_error)
    }
}
