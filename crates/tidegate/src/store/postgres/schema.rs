//! The table and the functions: what the migration makes, and whether it is there.

use deadpool_postgres::Object;
use tidegate_core::{StoreError, StoreErrorKind};
use tokio_postgres::types::Type;

use super::client::Client;
use super::error::store_error;
use super::found::read;
use crate::store::table::TableName;

/// The functions' version, in their names: a newer release makes its own beside them, and processes of both may run.
const VERSION: &str = "v2";

/// The time, as the database tells it while a statement runs. Seconds as a `double precision`, rounded to microseconds, are exact until
/// 2106; as a `numeric`, which `extract` is from Postgres 14 on, they take three times as long.
const CLOCK: &str = "(date_part('epoch', clock_timestamp()) * 1000000)::bigint";

const COLUMNS: &str = "key bytea, quota bytea, state bigint[], expires_at bigint";

/// What is sent to the database, for one table.
#[derive(Debug)]
pub(super) struct Statements {
    pub(super) table: TableName,
    pub(super) look: String,
    pub(super) step: String,
    pub(super) all: String,
    pub(super) leases: String,
    pub(super) forget: String,
    pub(super) sweep: String,
}

impl Statements {
    pub(super) fn new(table: TableName) -> Self {
        let fill = |text| fill(text, &table);
        Statements {
            look: fill(include_str!("sql/look.sql")),
            step: fill("SELECT {step}($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)"),
            all: fill("SELECT {all}($1, $2, $3, $4, $5, $6, $7, $8, $9)"),
            leases: fill("SELECT {leases}($1, $2, $3, $4, $5, $6, $7, $8, $9)"),
            forget: fill("SELECT {forget}($1)"),
            sweep: fill(include_str!("sql/sweep.sql")),
            table,
        }
    }

    /// Makes what is missing, unless somebody has made a table of that name for something else.
    pub(super) async fn prepare(&self, connection: &Object) -> Result<(), StoreError> {
        let missing = match self.found(connection).await? {
            Found::JointDecision => return Ok(()),
            // To look at the table waits for everybody who uses it, and has everybody wait.
            Found::Table => functions(&self.table),
            Found::Nothing => text(&self.table),
        };
        // Several processes may start at once, and even `IF NOT EXISTS` fails when two make the same thing.
        let lock = "SELECT pg_advisory_xact_lock(hashtext('tidegate migration'))";
        // What is sent at once is one transaction.
        let migration = format!("{lock}; SET LOCAL lock_timeout = '2s'; {missing}");
        let made = connection.batch_execute(&migration).await;
        made.map_err(|error| not_made(&self.table, store_error(error)))?;
        if let Found::JointDecision = self.found(connection).await? {
            return Ok(());
        }
        Err(not_made(&self.table, StoreError::new(StoreErrorKind::Unavailable, "it was made and is not found")))
    }

    /// How much of it is there.
    async fn found(&self, connection: &Object) -> Result<Found, StoreError> {
        let (table, index) = (fill("{table}", &self.table), fill("{index_in_schema}", &self.table));
        let functions =
            ["{until}", "{next}", "{step}", "{all}", "{leases}", "{forget}"].map(|name| fill(name, &self.table));
        let row = Client::Pooled(connection)
            .row(
                include_str!("sql/shape.sql"),
                &[(&table, Type::TEXT), (&index, Type::TEXT), (&functions.as_slice(), Type::TEXT_ARRAY)],
            )
            .await?;
        let columns: Option<String> = read(&row, 0)?;
        let (is_unique, has_index, has_functions): (bool, bool, bool) =
            (read(&row, 1)?, read(&row, 2)?, read(&row, 3)?);
        match columns {
            None => Ok(Found::Nothing),
            Some(found) if found != COLUMNS => Err(another_shape(&self.table, &found)),
            Some(_) if !is_unique => Err(another_shape(&self.table, "the same columns, but no primary key on `key`")),
            Some(_) if !has_index => Ok(Found::Nothing),
            Some(_) => Ok(if has_functions { Found::JointDecision } else { Found::Table }),
        }
    }
}

/// What is there of what a store needs.
enum Found {
    /// Not the table, or not its index.
    Nothing,
    /// Those, and not all functions of this release.
    Table,
    JointDecision,
}

/// The migration: what makes the table, its index and the functions, for those who run migrations by hand. It can be run
/// again; what is there stays.
///
/// ```
/// let sql = tidegate::postgres::migration("tidegate")?;
/// assert!(sql.contains("CREATE TABLE IF NOT EXISTS \"tidegate\""));
/// # Ok::<(), tidegate::StoreError>(())
/// ```
pub fn migration(table: &str) -> Result<String, StoreError> {
    Ok(text(&TableName::new(table)?))
}

fn text(table: &TableName) -> String {
    fill(include_str!("sql/table.sql"), table) + "\n" + &functions(table)
}

fn functions(table: &TableName) -> String {
    let parts = [
        include_str!("sql/next.sql"),
        include_str!("sql/step.sql"),
        include_str!("sql/all.sql"),
        include_str!("sql/leases.sql"),
        include_str!("sql/forget.sql"),
    ];
    fill(&parts.join("\n"), table)
}

fn fill(text: &str, table: &TableName) -> String {
    let function = |name| table.with(&format!("_{name}_{VERSION}"));
    text.replace("{read}", include_str!("sql/read.sql").trim_end())
        .replace("{table}", &table.with(""))
        // An index is made in its table's schema, and is not told which.
        .replace("{index}", &format!("\"{}_expires\"", table.bare()))
        .replace("{index_in_schema}", &table.with("_expires"))
        .replace("{until}", &function("until"))
        .replace("{next}", &function("next"))
        .replace("{step}", &function("step"))
        .replace("{all}", &function("all"))
        .replace("{leases}", &function("leases"))
        .replace("{forget}", &function("forget"))
        .replace("{clock}", CLOCK)
}

fn another_shape(table: &TableName, found: &str) -> StoreError {
    StoreError::new(
        StoreErrorKind::Unsupported,
        format!(
            "postgres: the table {table} is there with another shape, and was left alone: expected are the columns \
             {COLUMNS}, found {found}; choose another name with `PostgresStoreBuilder::table`"
        ),
    )
}

fn not_made(table: &TableName, error: StoreError) -> StoreError {
    let what = format!(
        "postgres: the table {table} and its functions could not be made ({error}); let somebody who may run the migration \
         (`tidegate::postgres::migration`)"
    );
    StoreError::caused_by(error.kind(), what, error)
}
