//! The table: created when it is missing, unchanged when it belongs to another program.

use tidegate::postgres::{PostgresStore, migration};
use tidegate::{Limiter, Quota, StoreErrorKind, days};

use crate::support::{builder, client, run, store_in_table, unique_name, url};

fn limiter(store: PostgresStore) -> Limiter {
    Limiter::builder().limit("login", Quota::fixed_window(5, days(300)).unwrap()).bare_store(store).build().unwrap()
}

/// Returns the tables, indexes and functions whose names contain `name`, with `T` in its place.
fn objects(name: &str) -> Vec<String> {
    let query = "SELECT relname::text FROM pg_class WHERE relname LIKE $1 AND relkind IN ('r', 'i') \
                 UNION ALL SELECT proname::text FROM pg_proc WHERE proname LIKE $1 ORDER BY 1";
    let rows = run(client().query(query, &[&format!("%{name}%")])).unwrap();
    rows.iter().map(|row| row.get::<_, String>(0).replace(name, "T")).collect()
}

#[test]
fn migration_creates_its_objects_once_and_no_others() {
    let table = unique_name("made");
    let first = limiter(store_in_table(&table));
    let all =
        ["T", "T_all_v2", "T_expires", "T_forget_v2", "T_leases_v2", "T_next_v2", "T_pkey", "T_step_v2", "T_until_v2"];
    assert_eq!(objects(&table), all);
    assert_eq!(run(first.limit("login", "u").into_future()).unwrap().remaining(), 4);
    // A later store finds the table and its rows.
    assert_eq!(run(limiter(store_in_table(&table)).limit("login", "u").into_future()).unwrap().remaining(), 3);
    assert_eq!(objects(&table), all);
}

#[test]
fn migration_can_be_run_by_hand_and_repeated() {
    let table = unique_name("by_hand");
    let sql = migration(&table).unwrap();
    let client = client();
    run(async {
        client.batch_execute(&sql).await.unwrap();
        client.batch_execute(&sql).await.unwrap();
    });
    assert_eq!(run(limiter(store_in_table(&table)).limit("login", "u").into_future()).unwrap().remaining(), 4);
}

/// A newer release adds functions of its own, and the table does not change. A long transaction on the table, such as a
/// dump, delays nothing.
#[test]
fn functions_are_created_while_the_table_is_in_use() {
    let table = unique_name("newer");
    let older = limiter(store_in_table(&table));
    run(client().batch_execute(&format!("DROP FUNCTION {table}_forget_v2"))).unwrap();
    let mut reader = client();
    let reading = run(reader.transaction()).unwrap();
    run(reading.batch_execute(&format!("SELECT FROM {table}"))).unwrap();
    let newer = limiter(store_in_table(&table));
    assert_eq!(run(older.limit("login", "u").into_future()).unwrap().remaining(), 4);
    assert_eq!(run(newer.limit("login", "u").into_future()).unwrap().remaining(), 3);
    let _ = run(newer.reset("login", "u").into_future()).unwrap();
}

#[test]
fn the_clock_is_exact_to_the_microsecond() {
    const CLOCK: &str = "(date_part('epoch', clock_timestamp()) * 1000000)::bigint";
    assert!(migration("t").unwrap().contains(CLOCK), "what is tested here is what is used");
    // 79 years, in steps of about seven hours.
    let times = "SELECT timestamptz '2026-01-01 00:00:00.000001Z' + n * interval '25000.000003 s' AS instant \
                 FROM generate_series(1, 100000) AS n";
    let query = format!(
        "SELECT count(*), count(*) FILTER (WHERE {} = (extract(epoch FROM instant) * 1000000)::bigint) FROM ({times}) AS t",
        CLOCK.replace("clock_timestamp()", "instant"),
    );
    let row = run(client().query_one(&query, &[])).unwrap();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (100_000, 100_000));
}

#[test]
fn role_with_read_and_write_rights_suffices() {
    let (table, role) = (unique_name("rights"), unique_name("role"));
    let limited = format!("{}&user={role}", url().replace("tidegate@", ""));
    run(client().batch_execute(&format!("CREATE ROLE {role} LOGIN"))).unwrap();
    let error = run(builder(&table).connect(&limited)).unwrap_err();
    assert!(error.to_string().contains("permission denied") && error.to_string().contains("migration"), "{error}");
    let grant = format!("GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO {role}");
    run(client().batch_execute(&(migration(&table).unwrap() + &grant))).unwrap();
    let limiter = limiter(run(builder(&table).connect(&limited)).unwrap());
    assert_eq!(run(limiter.limit("login", "u").into_future()).unwrap().remaining(), 4);
}

#[test]
fn table_of_another_shape_is_refused_and_unchanged() {
    let shapes = [
        ("id int, name text", "id integer, name text"),
        ("key bytea, quota bytea, state bigint[]", "found key bytea, quota bytea, state bigint[];"),
        ("key text PRIMARY KEY, quota bytea, state bigint[], expires_at bigint", "key text"),
        ("key bytea, quota bytea, state bigint[], expires_at bigint", "no primary key on `key`"),
        (
            "key bytea, quota bytea, state bigint[], expires_at bigint, PRIMARY KEY (key, quota)",
            "no primary key on `key`",
        ),
    ];
    for (columns, message) in shapes {
        let table = unique_name("shape");
        run(client().batch_execute(&format!("CREATE TABLE {table} ({columns})"))).unwrap();
        let before = objects(&table);
        let error = run(builder(&table).connect(&url())).unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Unsupported, "{error}");
        assert!(error.to_string().contains(message) && error.to_string().contains("another name"), "{error}");
        assert_eq!(objects(&table), before, "nothing was made beside it");
    }
}

#[test]
fn table_in_another_schema_works() {
    let schema = unique_name("app");
    run(client().batch_execute(&format!("CREATE SCHEMA {schema}"))).unwrap();
    let table = format!("{schema}.limits");
    assert_eq!(run(limiter(store_in_table(&table)).limit("login", "u").into_future()).unwrap().remaining(), 4);
    assert_eq!(run(limiter(store_in_table(&table)).limit("login", "u").into_future()).unwrap().remaining(), 3);
    // The store finds the table where it was created, despite other objects of that name.
    let count = run(client().query_one(&format!("SELECT count(*) FROM {table}"), &[])).unwrap();
    assert_eq!(count.get::<_, i64>(0), 1);
}

#[test]
fn dropped_table_is_an_error_until_the_migration_runs() {
    let table = unique_name("gone");
    let limiter = limiter(store_in_table(&table));
    run(client().batch_execute(&format!("DROP TABLE {table}"))).unwrap();
    let error = run(limiter.limit("login", "u").into_future()).unwrap_err();
    assert!(error.to_string().contains(&format!("relation \"{table}\" does not exist")), "{error}");
    // The error concerns every key, so the breaker and the failure policy must see it.
    assert!(error.is_retryable());
    run(client().batch_execute(&migration(&table).unwrap())).unwrap();
    assert_eq!(run(limiter.limit("login", "u").into_future()).unwrap().remaining(), 4);
}
