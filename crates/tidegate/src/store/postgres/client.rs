//! Whom a statement is sent to, and how.

use deadpool_postgres::Object;
use tidegate_core::StoreError;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Row, Transaction};

use super::error::store_error;

/// A parameter and its type, so that the database need not be asked for it.
pub(super) type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

/// Whom a statement is sent to, and how.
#[derive(Clone, Copy)]
pub(super) enum Client<'a> {
    /// A connection of the pool. Every statement is sent in one piece, and leaves nothing behind: the next may go to
    /// another connection of a pooler.
    Pooled(&'a Object),
    /// A connection of the pool on which statements are prepared once.
    Prepared(&'a Object),
    /// A transaction of the caller's.
    Transaction(&'a Transaction<'a>),
}

impl Client<'_> {
    /// The one row that a statement answers with.
    pub(super) async fn row(self, statement: &str, parameters: &[Parameter<'_>]) -> Result<Row, StoreError> {
        let row = match self {
            Client::Pooled(connection) => connection.query_typed_one(statement, parameters).await,
            Client::Transaction(transaction) => transaction.query_typed_one(statement, parameters).await,
            Client::Prepared(connection) => {
                let (values, types): (Vec<_>, Vec<_>) = parameters.iter().cloned().unzip();
                let statement = connection.prepare_typed_cached(statement, &types).await.map_err(store_error)?;
                connection.query_one(&statement, &values).await
            }
        };
        row.map_err(store_error)
    }

    /// How many rows a statement changed.
    pub(super) async fn change(self, statement: &str, parameters: &[Parameter<'_>]) -> Result<u64, StoreError> {
        let changed = match self {
            Client::Pooled(connection) | Client::Prepared(connection) => {
                connection.execute_typed(statement, parameters).await
            }
            Client::Transaction(transaction) => transaction.execute_typed(statement, parameters).await,
        };
        changed.map_err(store_error)
    }
}
