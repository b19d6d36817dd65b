//! The table: made when it is missing, left alone when it is somebody else's.

use tidegate::postgres::{PostgresStore, migration};
use tidegate::{Limiter, Quota, StoreErrorKind, days};

use crate::support::{builder, client, run, store_in, unique, url};

fn limiter(store: PostgresStore) -> Limiter {
    Limiter::builder().limit("login", Quota::fixed_window(5, days(300)).unwrap()).bare_store(store).build().unwrap()
}

/// What is in the database beside what Postgres brings, tables and functions, whose name has this in it.
fn made(what: &str) -> Vec<String> {
    let query = "SELECT relname::text FROM pg_class WHERE relname LIKE $1 AND relkind IN ('r', 'i') \
                 UNION ALL SELECT proname::text FROM pg_proc WHERE proname LIKE $1 ORDER BY 1";
    let rows = run(client().query(query, &[&format!("%{what}%")])).unwrap();
    rows.iter().map(|row| row.get::<_, String>(0).replace(what, "T")).collect()
}

#[test]
fn everything_is_made_once_and_nothing_else() {
    let table = unique("made");
    let first = limiter(store_in(&table));
    let all =
        ["T", "T_all_v2", "T_expires", "T_forget_v2", "T_leases_v2", "T_next_v2", "T_pkey", "T_step_v2", "T_until_v2"];
    assert_eq!(made(&table), all);
    assert_eq!(run(first.limit("login", "u").into_future()).unwrap().remaining(), 4);
    // Whoever comes later finds it, and what is in it.
    assert_eq!(run(limiter(store_in(&table)).limit("login", "u").into_future()).unwrap().remaining(), 3);
    assert_eq!(made(&table), all);
}

#[test]
fn the_migration_can_be_run_by_hand_and_again() {
    let table = unique("by_hand");
    let sql = migration(&table).unwrap();
    let client = client();
    run(async {
        client.batch_execute(&sql).await.unwrap();
        client.batch_execute(&sql).await.unwrap();
    });
    assert_eq!(run(limiter(store_in(&table)).limit("login", "u").into_future()).unwrap().remaining(), 4);
}

/// A newer release brings functions of its own, and the table stays as it is: whoever uses that meanwhile, such as a dump,
/// holds up nobody.
#[test]
fn functions_are_made_while_the_table_is_in_use() {
    let table = unique("newer");
    let older = limiter(store_in(&table));
    run(client().batch_execute(&format!("DROP FUNCTION {table}_forget_v2"))).unwrap();
    let mut reader = client();
    let reading = run(reader.transaction()).unwrap();
    run(reading.batch_execute(&format!("SELECT FROM {table}"))).unwrap();
    let newer = limiter(store_in(&table));
    assert_eq!(run(older.limit("login", "u").into_future()).unwrap().remaining(), 4);
    assert_eq!(run(newer.limit("login", "u").into_future()).unwrap().remaining(), 3);
    let _ = run(newer.reset("login", "u").into_future()).unwrap();
}

#[test]
fn the_clock_is_exact_to_the_microsecond() {
    const CLOCK: &str = "(date_part('epoch', clock_timestamp()) * 1000000)::bigint";
    assert!(migration("t").unwrap().contains(CLOCK), "what is tested here is what is used");
    // 79 years, in steps of about seven hours.
    let times = "SELECT timestamptz '2026-01-01 00:00:00.000001Z' + n * interval '25000.000003 s' AS told \
                 FROM generate_series(1, 100000) AS n";
    let query = format!(
        "SELECT count(*), count(*) FILTER (WHERE {} = (extract(epoch FROM told) * 1000000)::bigint) FROM ({times}) AS t",
        CLOCK.replace("clock_timestamp()", "told"),
    );
    let row = run(client().query_one(&query, &[])).unwrap();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (100_000, 100_000));
}

#[test]
fn a_role_that_may_only_read_and_write_needs_no_more() {
    let (table, role) = (unique("rights"), unique("role"));
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
fn a_table_of_another_shape_is_left_alone() {
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
    for (columns, said) in shapes {
        let table = unique("shape");
        run(client().batch_execute(&format!("CREATE TABLE {table} ({columns})"))).unwrap();
        let before = made(&table);
        let error = run(builder(&table).connect(&url())).unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Unsupported, "{error}");
        assert!(error.to_string().contains(said) && error.to_string().contains("another name"), "{error}");
        assert_eq!(made(&table), before, "nothing was made beside it");
    }
}

#[test]
fn a_schema_of_its_own() {
    let schema = unique("app");
    run(client().batch_execute(&format!("CREATE SCHEMA {schema}"))).unwrap();
    let table = format!("{schema}.limits");
    assert_eq!(run(limiter(store_in(&table)).limit("login", "u").into_future()).unwrap().remaining(), 4);
    assert_eq!(run(limiter(store_in(&table)).limit("login", "u").into_future()).unwrap().remaining(), 3);
    // Found where it was made, whatever else has the same name.
    let count = run(client().query_one(&format!("SELECT count(*) FROM {table}"), &[])).unwrap();
    assert_eq!(count.get::<_, i64>(0), 1);
}

#[test]
fn a_table_that_is_gone_is_an_error_and_comes_back_with_the_migration() {
    let table = unique("gone");
    let limiter = limiter(store_in(&table));
    run(client().batch_execute(&format!("DROP TABLE {table}"))).unwrap();
    let error = run(limiter.limit("login", "u").into_future()).unwrap_err();
    assert!(error.to_string().contains(&format!("relation \"{table}\" does not exist")), "{error}");
    // It is about every key, so the breaker and the failure policy have to see it.
    assert!(error.is_retryable());
    run(client().batch_execute(&migration(&table).unwrap())).unwrap();
    assert_eq!(run(limiter.limit("login", "u").into_future()).unwrap().remaining(), 4);
}
