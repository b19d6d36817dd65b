//! The schema of the table: its migration, the check of its shape, and the statements on it.

use rusqlite::{Connection, OptionalExtension};
use tidegate_core::{StoreError, StoreErrorKind};

use super::batch::BatchResult;
use super::error::file_name;
use crate::store::table::TableName;

/// The expected columns of the table, in the format of [`table_columns`].
const COLUMNS: &str = "key BLOB NOT NULL PRIMARY KEY, value BLOB NOT NULL, expires_at INTEGER";

/// Returns the SQL that creates the table `table` and its index, if they are missing. Opening a store runs it. It is
/// for programs that keep all migrations in one place, or that only decide [in
/// transactions](crate::sqlite::SqliteStore::in_transaction).
///
/// ```
/// let sql = tidegate::sqlite::migration("tidegate")?;
/// assert!(sql.starts_with("CREATE TABLE IF NOT EXISTS \"tidegate\""));
/// # Ok::<(), tidegate::StoreError>(())
/// ```
pub fn migration(table: &str) -> Result<String, StoreError> {
    Ok(TableSchema::new(table_name(table)?).migration)
}

/// Parses the name of a table, and refuses names that SQLite does not allow.
pub(super) fn table_name(name: &str) -> Result<TableName, StoreError> {
    // An attached database is another file, with a journal of its own.
    if name.contains('.') {
        return Err(unsupported(format!("sqlite: the table's name {name:?}: no schema can stand before it")));
    }
    if name.get(..7).is_some_and(|start| start.eq_ignore_ascii_case("sqlite_")) {
        return Err(unsupported(format!(
            "sqlite: the table's name {name:?}: SQLite keeps names that begin so for itself"
        )));
    }
    TableName::new(name)
}

fn unsupported(message: String) -> StoreError {
    StoreError::new(StoreErrorKind::Unsupported, message)
}

/// The schema of the table, with the statements on it.
pub(super) struct TableSchema {
    name: String,
    index: String,
    migration: String,
    /// Reads the value of a row and the time at which it expires.
    pub(super) select: String,
    /// Writes a row, whether it exists or not.
    pub(super) write: String,
    /// Writes the value of a row whose expiry stays. The index is not written.
    pub(super) write_value: String,
    /// Adds a row, unless another connection has added it in the meantime.
    pub(super) write_if_new: String,
    pub(super) delete: String,
    /// Deletes some of the expired rows, the oldest first.
    pub(super) sweep: String,
    /// Reads every row.
    #[cfg(feature = "testing")]
    pub(super) select_all: String,
}

impl TableSchema {
    pub(super) fn new(name: TableName) -> Self {
        let index = name.with_suffix("_expires");
        let insert = format!("INSERT INTO {name} (key, value, expires_at) VALUES (?1, ?2, ?3) ON CONFLICT (key) DO");
        TableSchema {
            migration: format!(
                "CREATE TABLE IF NOT EXISTS {name} (\n    key BLOB PRIMARY KEY NOT NULL,\n    value BLOB NOT NULL,\n    \
                 expires_at INTEGER\n) STRICT, WITHOUT ROWID;\n\
                 CREATE INDEX IF NOT EXISTS {index} ON {name} (expires_at);\n"
            ),
            select: format!("SELECT value, expires_at FROM {name} WHERE key = ?1"),
            write: format!("{insert} UPDATE SET value = excluded.value, expires_at = excluded.expires_at"),
            write_value: format!("UPDATE {name} SET value = ?2 WHERE key = ?1"),
            write_if_new: format!("{insert} NOTHING"),
            delete: format!("DELETE FROM {name} WHERE key = ?1"),
            sweep: format!(
                "DELETE FROM {name} WHERE key IN \
                 (SELECT key FROM {name} WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2)"
            ),
            #[cfg(feature = "testing")]
            select_all: format!("SELECT key, value FROM {name}"),
            name: name.unqualified().to_owned(),
            index: format!("{}_expires", name.unqualified()),
        }
    }

    /// Returns whether the table and its index exist, or an error when something else has one of their names.
    pub(super) fn exists(&self, connection: &Connection) -> BatchResult<bool> {
        let table = self.has_expected_shape(connection, "table", &self.name, COLUMNS)?;
        let index = self.has_expected_shape(connection, "index", &self.index, "expires_at")?;
        Ok(table.and_then(|table| Ok(table & index?)))
    }

    fn has_expected_shape(&self, connection: &Connection, kind: &str, name: &str, expected: &str) -> BatchResult<bool> {
        let Some((found_kind, on)) = schema_entry(connection, name)? else { return Ok(Ok(false)) };
        let found = if kind == "table" { table_columns(connection, name)? } else { index_columns(connection, name)? };
        if found_kind == kind && on.eq_ignore_ascii_case(&self.name) && found == expected {
            return Ok(Ok(true));
        }
        Ok(Err(unsupported(format!(
            "sqlite: {}: there is a {found_kind} {name:?} of another shape, on {on:?} with ({found}), and not the {kind} on \
             {:?} with ({expected}): choose another name with SqliteStoreBuilder::table, or move that one away",
            file_name(connection),
            self.name
        ))))
    }

    /// Creates the table and the index if they are missing.
    pub(super) fn create(&self, connection: &Connection) -> Result<(), rusqlite::Error> {
        connection.execute_batch(&format!("BEGIN IMMEDIATE;\n{}COMMIT;", self.migration))
    }
}

/// Returns the type of the object with a name, and the table that it belongs to.
fn schema_entry(connection: &Connection, name: &str) -> Result<Option<(String, String)>, rusqlite::Error> {
    let select = "SELECT type, tbl_name FROM sqlite_schema WHERE name = ?1 COLLATE NOCASE AND type != 'trigger'";
    connection.query_row(select, [name], |row| Ok((row.get(0)?, row.get(1)?))).optional()
}

/// Returns the columns of a table or a view.
fn table_columns(connection: &Connection, name: &str) -> Result<String, rusqlite::Error> {
    let mut select = connection.prepare("SELECT name, type, \"notnull\", pk FROM pragma_table_info(?1)")?;
    let columns = select.query_map([name], |row| {
        let (name, kind): (String, String) = (row.get(0)?, row.get(1)?);
        let not_null = if row.get(2)? { " NOT NULL" } else { "" };
        let primary = if row.get::<_, i64>(3)? == 1 { " PRIMARY KEY" } else { "" };
        Ok(format!("{name} {kind}{not_null}{primary}"))
    })?;
    Ok(columns.collect::<Result<Vec<_>, _>>()?.join(", "))
}

/// Returns the columns of an index.
fn index_columns(connection: &Connection, name: &str) -> Result<String, rusqlite::Error> {
    let mut select = connection.prepare("SELECT name FROM pragma_index_info(?1)")?;
    // An expression has no name.
    let columns = select.query_map([name], |row| Ok(row.get::<_, Option<String>>(0)?.unwrap_or_default()))?;
    Ok(columns.collect::<Result<Vec<_>, _>>()?.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn database(table: &TableSchema) -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        table.create(&connection).unwrap();
        connection
    }

    /// Returns the query plan of a statement.
    fn plan(connection: &Connection, statement: &str) -> String {
        let mut explain = connection.prepare(&format!("EXPLAIN QUERY PLAN {statement}")).unwrap();
        let parameters = vec![1; explain.parameter_count()];
        let steps = explain.query_map(rusqlite::params_from_iter(parameters), |row| row.get::<_, String>(3)).unwrap();
        steps.collect::<Result<Vec<_>, _>>().unwrap().join("; ")
    }

    #[test]
    fn no_statement_scans_the_table() {
        let table = TableSchema::new(TableName::default());
        let connection = database(&table);
        let sweep = plan(&connection, &table.sweep);
        assert!(sweep.contains("USING COVERING INDEX tidegate_expires (expires_at<?)"), "{sweep}");
        let TableSchema { sweep, select, write, write_value, write_if_new, delete, .. } = &table;
        for statement in [sweep, select, write, write_value, write_if_new, delete] {
            let plan = plan(&connection, statement);
            assert!(!plan.contains("SCAN") && !plan.contains("TEMP B-TREE"), "{statement}: {plan}");
        }
    }

    #[test]
    fn migration_creates_the_expected_schema_and_can_be_repeated() {
        for name in ["tidegate", "Limits_2"] {
            let table = TableSchema::new(table_name(name).unwrap());
            let connection = Connection::open_in_memory().unwrap();
            assert!(!table.exists(&connection).unwrap().unwrap());
            for _ in 0..2 {
                connection.execute_batch(&migration(name).unwrap()).unwrap();
                assert!(table.exists(&connection).unwrap().unwrap());
            }
        }
    }

    #[test]
    fn names_that_sqlite_does_not_allow_are_refused() {
        for name in ["main.tidegate", "sqlite_limits", "SQLite_x", "a\"b", ""] {
            let error = migration(name).unwrap_err();
            assert_eq!(error.kind(), StoreErrorKind::Unsupported, "{error}");
        }
    }
}
