//! Hostile and mistaken input: keys, table names, files and tables.

use rusqlite::Connection;
use tidegate::sqlite::SqliteStore;
use tidegate::{Error, StoreError, StoreErrorKind};

use crate::support::{CAPACITY, TempFolder, decide, limiter, remaining};

fn assert_unsupported(error: &StoreError, words: &[&str]) {
    assert_eq!(error.kind(), StoreErrorKind::Unsupported, "{error}");
    for word in words {
        assert!(error.to_string().contains(word), "{error}: no {word:?}");
    }
}

fn store_error(error: Error) -> StoreError {
    match error {
        Error::Store(error) => error,
        other => panic!("{other}"),
    }
}

#[test]
fn keys_with_special_characters_are_distinct() {
    let folder = TempFolder::new();
    folder.connection().execute_batch("CREATE TABLE users (name TEXT); INSERT INTO users VALUES ('alice')").unwrap();
    let limiter = limiter(&folder.store());
    let keys = [
        String::new(),
        "'".to_owned(),
        "''; DROP TABLE users; --".to_owned(),
        "\" OR 1 = 1 --".to_owned(),
        "x'00'".to_owned(),
        "a\0b".to_owned(),
        "a\0c".to_owned(),
        "a".to_owned(),
        "\0".to_owned(),
        "NULL".to_owned(),
        "🦀".to_owned(),
        "🦀🦀".to_owned(),
        "e\u{301}".to_owned(),
        "é".to_owned(),
        "?1".to_owned(),
        "%".to_owned(),
        "_".to_owned(),
        "\u{202e}|\n\t".to_owned(),
        "x".repeat(10_000),
        "x".repeat(9_999) + "y",
    ];
    for spent in 1..=CAPACITY {
        for key in &keys {
            let decision = decide(limiter.limit("a", key.as_str())).unwrap();
            assert_eq!((decision.allowed(), decision.remaining()), (true, CAPACITY - spent), "{key:?}");
        }
    }
    for key in &keys {
        assert!(!decide(limiter.limit("a", key.as_str())).unwrap().allowed(), "{key:?}");
    }
    assert_eq!(folder.rows(), keys.len() as u64);
    let users: String =
        folder.connection().query_row("SELECT group_concat(name) FROM users", [], |row| row.get(0)).unwrap();
    assert_eq!(users, "alice");
}

#[test]
fn invalid_table_name_is_refused() {
    let words = ["accepted are"];
    for name in ["", "a b", "a\"b", "a;DROP TABLE users", "1a", "é", "a\0", &"x".repeat(41)] {
        assert_unsupported(&SqliteStore::builder().table(name).err().unwrap(), &words);
    }
    assert_unsupported(&SqliteStore::builder().table("main.limits").err().unwrap(), &["sqlite: ", "no schema"]);
    assert_unsupported(&SqliteStore::builder().table("sqlite_limits").err().unwrap(), &["sqlite: ", "for itself"]);
}

#[test]
fn store_leaves_other_tables_alone() {
    let folder = TempFolder::new();
    let connection = folder.connection();
    connection
        .execute_batch(
            "PRAGMA user_version = 7; CREATE TABLE users (name TEXT); CREATE VIEW all_users AS SELECT * FROM users",
        )
        .unwrap();
    let schema = |connection: &Connection| -> Vec<String> {
        let mut select = connection.prepare("SELECT name FROM sqlite_schema ORDER BY name").unwrap();
        select.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    let store = folder.store_with(SqliteStore::builder().table("limits").unwrap());
    let _ = decide(limiter(&store).limit("a", "alice")).unwrap();
    assert_eq!(schema(&connection), ["all_users", "limits", "limits_expires", "users"]);
    let version: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
    assert_eq!(version, 7);
    // A second store in a table of its own.
    let other = folder.store_with(SqliteStore::builder().table("others").unwrap());
    assert_eq!(remaining(&limiter(&other), "alice"), CAPACITY);
}

#[test]
fn table_of_another_shape_is_refused_and_unchanged() {
    let shapes = [
        "CREATE TABLE tidegate (id INTEGER PRIMARY KEY, name TEXT)",
        "CREATE TABLE tidegate (key BLOB NOT NULL, value BLOB NOT NULL, expires_at INTEGER)",
        "CREATE TABLE tidegate (key TEXT PRIMARY KEY NOT NULL, value BLOB NOT NULL, expires_at INTEGER)",
        "CREATE TABLE tidegate (key BLOB PRIMARY KEY NOT NULL, value BLOB NOT NULL)",
        "CREATE TABLE tidegate (key BLOB PRIMARY KEY NOT NULL, value BLOB NOT NULL, expires_at INTEGER, more TEXT NOT NULL)",
        "CREATE TABLE Tidegate (key BLOB PRIMARY KEY NOT NULL, value BLOB NOT NULL, expires_at TEXT)",
        "CREATE TABLE t (a); CREATE VIEW tidegate AS SELECT a FROM t",
        "CREATE TABLE t (a); CREATE INDEX tidegate ON t (a)",
        "CREATE TABLE t (expires_at); CREATE INDEX tidegate_expires ON t (expires_at)",
    ];
    for shape in shapes {
        let folder = TempFolder::new();
        let connection = folder.connection();
        connection.execute_batch(shape).unwrap();
        let before: String =
            connection.query_row("SELECT group_concat(sql) FROM sqlite_schema", [], |row| row.get(0)).unwrap();
        let error = SqliteStore::open(folder.file()).unwrap_err();
        assert_unsupported(
            &error,
            &["sqlite: ", "limits.db", "another shape", "expires_at", "SqliteStoreBuilder::table"],
        );
        let after: String =
            connection.query_row("SELECT group_concat(sql) FROM sqlite_schema", [], |row| row.get(0)).unwrap();
        assert_eq!(before, after, "it was left as it is");
    }
}

#[test]
fn lost_table_is_an_error_until_it_is_restored() {
    let folder = TempFolder::new();
    let limiter = limiter(&folder.store());
    let _ = decide(limiter.limit("a", "alice")).unwrap();
    let connection = folder.connection();
    for change in ["ALTER TABLE tidegate RENAME TO away", "CREATE TABLE tidegate (other TEXT)"] {
        connection.execute_batch(change).unwrap();
        for call in [limiter.limit("a", "alice"), limiter.check("a", "alice")] {
            let error = store_error(decide(call).unwrap_err());
            assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
            assert!(error.to_string().contains("sqlite::migration"), "{error}");
        }
    }
    connection.execute_batch("DROP TABLE tidegate; ALTER TABLE away RENAME TO tidegate").unwrap();
    assert_eq!(decide(limiter.limit("a", "alice")).unwrap().remaining(), CAPACITY - 2);
}

#[test]
fn foreign_row_is_corrupt_until_its_key_is_reset() {
    let folder = TempFolder::new();
    let limiter = limiter(&folder.store());
    for (index, value) in [&b""[..], b"x", b"hello, world", &[0xff; 64], &[0; 64]].into_iter().enumerate() {
        let key = format!("key-{index}");
        let connection = folder.connection();
        let row = format!("shop|a|{key}").into_bytes();
        connection.execute("INSERT INTO tidegate VALUES (?1, ?2, 0)", (&row, value)).unwrap();
        for call in [limiter.limit("a", &*key), limiter.check("a", &*key), limiter.refund("a", &*key)] {
            let error = store_error(decide(call).unwrap_err());
            assert_eq!(error.kind(), StoreErrorKind::Corrupt, "{error}");
        }
        assert!(decide(limiter.limit("a", "somebody else")).unwrap().allowed());
        assert_eq!(decide(limiter.reset("a", &*key)).unwrap().remaining(), CAPACITY);
        assert_eq!(decide(limiter.limit("a", &*key)).unwrap().remaining(), CAPACITY - 1);
    }
}

#[test]
fn file_that_is_no_database_is_refused_and_unchanged() {
    let folder = TempFolder::new();
    let text = "not a database, but somebody's notes. ".repeat(200);
    std::fs::write(folder.file(), &text).unwrap();
    let error = SqliteStore::open(folder.file()).unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("limits.db"), "{error}");
    assert_eq!(std::fs::read_to_string(folder.file()).unwrap(), text);
}

#[test]
fn damaged_database_is_an_error() {
    let folder = TempFolder::new();
    {
        let store = folder.store();
        let limiter = limiter(&store);
        for key in 0..2_000_u64 {
            drop(limiter.limit("a", key).try_now());
        }
        limit_keys(&limiter, 2_000);
        crate::support::run(tidegate::Store::close(&store));
    }
    let mut bytes = std::fs::read(folder.file()).unwrap();
    // Everything but the first page, where the schema is.
    bytes[4_096..].iter_mut().for_each(|byte| *byte = 0x5a);
    std::fs::write(folder.file(), bytes).unwrap();
    let limiter = limiter(&folder.store());
    for call in [limiter.limit("a", 7_u64), limiter.check("a", 7_u64)] {
        let error = store_error(decide(call).unwrap_err());
        assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains("integrity_check"), "{error}");
    }
}

fn limit_keys(limiter: &tidegate::Limiter, keys: u64) {
    for key in 0..keys {
        let _ = decide(limiter.limit("a", key)).unwrap();
    }
}

#[test]
fn path_that_names_no_file_is_refused() {
    for path in ["", ":memory:"] {
        assert_unsupported(&SqliteStore::open(path).unwrap_err(), &["sqlite: ", "MemoryStore"]);
    }
    assert_unsupported(&SqliteStore::open("file:limits.db?mode=memory").unwrap_err(), &["sqlite: ", "URI"]);
    assert_unsupported(&SqliteStore::open("a\0b").unwrap_err(), &["sqlite: "]);
    let folder = TempFolder::new();
    for path in [folder.path().join("missing").join("limits.db"), folder.path().to_owned()] {
        let error = SqliteStore::open(&path).unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains("its folder has to exist"), "{error}");
    }
}
