//! The table and the functions: their migration, the check of their shape, and the statements on them.

use deadpool_postgres::Object;
use tidegate_core::{StoreError, StoreErrorKind};
use tokio_postgres::types::Type;

use super::client::Client;
use super::error::store_error;
use super::reply::column;
use crate::store::table::TableName;

/// The version in the names of the functions. A newer release creates its own functions, so processes of both can run.
const FUNCTION_VERSION: &str = "v2";

/// The SQL expression of the current time in microseconds. Seconds as a `double precision`, rounded to microseconds, are
/// exact until 2106. As a `numeric`, which `extract` returns from Postgres 14 on, they take three times as long.
const CLOCK_SQL: &str = "(date_part('epoch', clock_timestamp()) * 1000000)::bigint";

/// The expected columns of the table.
const COLUMNS: &str = "key bytea, quota bytea, state bigint[], expires_at bigint";

/// The SQL statements on one table.
#[derive(Debug)]
pub(super) struct Statements {
    pub(super) table: TableName,
    pub(super) check: String,
    pub(super) step: String,
    pub(super) joint: String,
    pub(super) leases: String,
    pub(super) forget: String,
    pub(super) sweep: String,
}

impl Statements {
    pub(super) fn new(table: TableName) -> Self {
        let render = |template| render(template, &table);
        Statements {
            check: render(include_str!("sql/check.sql")),
            step: render("SELECT {step}($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)"),
            joint: render("SELECT {all}($1, $2, $3, $4, $5, $6, $7, $8, $9)"),
            leases: render("SELECT {leases}($1, $2, $3, $4, $5, $6, $7, $8, $9)"),
            forget: render("SELECT {forget}($1)"),
            sweep: render(include_str!("sql/sweep.sql")),
            table,
        }
    }

    /// Creates the table and the functions that are missing. Returns an error when the table has another shape.
    pub(super) async fn ensure_schema(&self, connection: &Object) -> Result<(), StoreError> {
        let missing_sql = match self.inspect(connection).await? {
            SchemaState::Complete => return Ok(()),
            // Even `IF NOT EXISTS` on the table waits for the transactions that use it, and blocks later ones.
            SchemaState::TableOnly => functions_sql(&self.table),
            SchemaState::Missing => migration_sql(&self.table),
        };
        // Several processes may start at once, and even `IF NOT EXISTS` fails when two create the same object.
        let lock = "SELECT pg_advisory_xact_lock(hashtext('tidegate migration'))";
        // Statements that are sent together are one transaction.
        let migration = format!("{lock}; SET LOCAL lock_timeout = '2s'; {missing_sql}");
        let migrated = connection.batch_execute(&migration).await;
        migrated.map_err(|error| migration_error(&self.table, store_error(error)))?;
        if let SchemaState::Complete = self.inspect(connection).await? {
            return Ok(());
        }
        Err(migration_error(&self.table, StoreError::new(StoreErrorKind::Unavailable, "it was made and is not found")))
    }

    /// Returns the part of the schema that exists, or an error when the table has another shape.
    async fn inspect(&self, connection: &Object) -> Result<SchemaState, StoreError> {
        let (table, index) = (render("{table}", &self.table), render("{index_in_schema}", &self.table));
        let functions =
            ["{until}", "{next}", "{step}", "{all}", "{leases}", "{forget}"].map(|name| render(name, &self.table));
        let row = Client::Unprepared(connection)
            .query_one(
                include_str!("sql/shape.sql"),
                &[(&table, Type::TEXT), (&index, Type::TEXT), (&functions.as_slice(), Type::TEXT_ARRAY)],
            )
            .await?;
        let columns: Option<String> = column(&row, 0)?;
        let (is_unique, has_index, has_functions): (bool, bool, bool) =
            (column(&row, 1)?, column(&row, 2)?, column(&row, 3)?);
        match columns {
            None => Ok(SchemaState::Missing),
            Some(columns) if columns != COLUMNS => Err(shape_error(&self.table, &columns)),
            Some(_) if !is_unique => Err(shape_error(&self.table, "the same columns, but no primary key on `key`")),
            Some(_) if !has_index => Ok(SchemaState::Missing),
            Some(_) => Ok(if has_functions { SchemaState::Complete } else { SchemaState::TableOnly }),
        }
    }
}

/// The part of the schema that exists in the database.
enum SchemaState {
    /// The table or its index is missing.
    Missing,
    /// The table and its index exist, but not all functions of this release.
    TableOnly,
    Complete,
}

/// Returns the SQL that creates the table, its index and the functions, for programs that run migrations themselves. It
/// can be run again, and changes nothing that exists.
///
/// ```
/// let sql = tidegate::postgres::migration("tidegate")?;
/// assert!(sql.contains("CREATE TABLE IF NOT EXISTS \"tidegate\""));
/// # Ok::<(), tidegate::StoreError>(())
/// ```
pub fn migration(table: &str) -> Result<String, StoreError> {
    Ok(migration_sql(&TableName::new(table)?))
}

fn migration_sql(table: &TableName) -> String {
    render(include_str!("sql/table.sql"), table) + "\n" + &functions_sql(table)
}

fn functions_sql(table: &TableName) -> String {
    let parts = [
        include_str!("sql/next.sql"),
        include_str!("sql/step.sql"),
        include_str!("sql/joint.sql"),
        include_str!("sql/leases.sql"),
        include_str!("sql/forget.sql"),
    ];
    render(&parts.join("\n"), table)
}

/// Replaces the placeholders of an SQL template.
fn render(template: &str, table: &TableName) -> String {
    let function = |name| table.with_suffix(&format!("_{name}_{FUNCTION_VERSION}"));
    template
        .replace("{read}", include_str!("sql/read.sql").trim_end())
        .replace("{table}", &table.with_suffix(""))
        // The schema of an index is always that of its table, and its name must not repeat it.
        .replace("{index}", &format!("\"{}_expires\"", table.unqualified()))
        .replace("{index_in_schema}", &table.with_suffix("_expires"))
        .replace("{until}", &function("until"))
        .replace("{next}", &function("next"))
        .replace("{step}", &function("step"))
        .replace("{all}", &function("all"))
        .replace("{leases}", &function("leases"))
        .replace("{forget}", &function("forget"))
        .replace("{clock}", CLOCK_SQL)
}

fn shape_error(table: &TableName, found: &str) -> StoreError {
    StoreError::new(
        StoreErrorKind::Unsupported,
        format!(
            "postgres: the table {table} is there with another shape, and was left alone: expected are the columns \
             {COLUMNS}, found {found}; choose another name with `PostgresStoreBuilder::table`"
        ),
    )
}

fn migration_error(table: &TableName, error: StoreError) -> StoreError {
    let message = format!(
        "postgres: the table {table} and its functions could not be made ({error}); let somebody who may run the migration \
         (`tidegate::postgres::migration`)"
    );
    StoreError::caused_by(error.kind(), message, error)
}
