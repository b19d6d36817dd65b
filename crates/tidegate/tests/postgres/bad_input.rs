//! Hostile and corrupt input: keys, addresses and rows.

use tidegate::postgres::PostgresStore;
use tidegate::store::{Op, Request, Scope};
use tidegate::{Cost, Key, Limiter, OnStoreError, Quota, Store, StoreErrorKind, days};
use tidegate_testkit::Random;

use crate::support::{client, run, store_in_table, unique_name, url};
use tidegate_servers::required_env;

#[test]
fn keys_with_special_characters_are_distinct() {
    let table = unique_name("keys");
    let limiter = Limiter::builder()
        .limit("a'; DROP", Quota::fixed_window(2, days(300)).unwrap())
        .bare_store(store_in_table(&table))
        .build();
    let limiter = limiter.unwrap();
    let (long, longer) = ("x".repeat(10_240), "x".repeat(10_241));
    let injection = format!("'); DROP TABLE {table}; --");
    let keys = [
        "'", "''", "\"", "\\", "\\'", "$1", "%", "_", "a\0b", "a\0c", "\0", "🦀", "é", "e\u{301}", "{}", "NULL", "",
        " ", &injection, &long, &longer,
    ];
    for round in [1, 0] {
        for key in keys {
            let decision = run(limiter.limit("a'; DROP", key).into_future()).unwrap();
            assert_eq!((decision.allowed(), decision.remaining()), (true, round), "{:?}", &key[..key.len().min(40)]);
        }
    }
    for key in keys {
        assert!(!run(limiter.limit("a'; DROP", key).into_future()).unwrap().allowed());
    }
    let rows = run(client().query_one(&format!("SELECT count(*) FROM {table}"), &[])).unwrap();
    assert_eq!(rows.get::<_, i64>(0), keys.len() as i64);
}

#[test]
fn connect_error_never_contains_the_password() {
    let connect = |url: &str| run(PostgresStore::connect(url)).unwrap_err();
    let error = connect("postgres://app:hunter2@[::1");
    assert_eq!(error.kind(), StoreErrorKind::Unsupported);
    assert!(error.to_string().contains("the address is not understood"), "{error}");
    let error = connect("postgres://app:hunter2@127.0.0.1:1/x");
    assert_eq!(error.kind(), StoreErrorKind::Unavailable);
    assert!(
        format!("{error:?}{error}").contains("refused") && !format!("{error:?}{error}").contains("hunter2"),
        "{error:?}"
    );
    let error = connect(&required_env("TIDEGATE_POSTGRES_URL").replace("/postgres", "/nobodys"));
    assert!(error.to_string().contains("database \"nobodys\" does not exist"), "{error}");
    let error = connect(&format!("{}&sslmode=require", url()));
    assert!(error.to_string().contains("TLS"), "{error}");
}

#[test]
fn invalid_table_name_is_refused() {
    for name in ["", "a b", "a;b", "a\"b", "a.b.c", "1a"] {
        let error = PostgresStore::builder().table(name).err().expect(name);
        assert!(error.to_string().contains("accepted are"), "{error}");
    }
}

const UNIT_OPS: [Op; 4] = [Op::Limit(Cost::ONE), Op::Check(Cost::ONE), Op::Reserve(Cost::ONE), Op::Refund(Cost::ONE)];

/// A row with random content gives a decision or a `Corrupt` error, and its key works again once it is reset.
#[test]
fn foreign_row_is_corrupt_until_its_key_is_reset() {
    let (table, client) = (unique_name("rows"), client());
    let (store, scope, key) = (store_in_table(&table), Scope::new("", "rows"), Key::from("u"));
    let period = days(300);
    let quotas = [
        Quota::token_bucket(10, period).unwrap(),
        Quota::fixed_window(10, period).unwrap(),
        Quota::sliding_window(10, period).unwrap(),
        Quota::sliding_log(10, period).unwrap(),
    ];
    let write = format!("UPDATE {table} SET state = $1, quota = coalesce($2, quota)");
    let mut random = Random::new(5);
    let (mut refused, mut answered) = (0, 0);
    for round in 0..160 {
        let quota = &quotas[round % 4];
        let request = |op| Request { scope: &scope, key: &key, quota, op, on_store_error: OnStoreError::Closed };
        let apply = |op| run(store.apply(&request(op)));
        let _ = apply(Op::Reset).unwrap();
        assert_eq!(apply(Op::Limit(Cost::ONE)).unwrap().remaining(), 9);
        let numbers: Vec<Option<i64>> = (0..random.below(7))
            .map(|_| match random.below(6) {
                0 => None,
                1 => Some(i64::MIN + random.below(9) as i64),
                2 => Some(i64::MAX - random.below(9) as i64),
                3 => Some(-1),
                _ => Some(random.below(1 << 54) as i64),
            })
            .collect();
        let other = (round % 3 == 0).then(|| (0..random.below(12)).map(|_| random.next() as u8).collect::<Vec<u8>>());
        for op in UNIT_OPS {
            run(client.execute(&write, &[&numbers, &other])).unwrap();
            match apply(op) {
                Ok(_) => answered += 1,
                Err(error) => {
                    assert_eq!(error.kind(), StoreErrorKind::Corrupt, "{numbers:?} {op:?}: {error}");
                    refused += 1;
                }
            }
        }
        run(client.execute(&write, &[&numbers, &other])).unwrap();
        let both = [request(Op::Limit(Cost::ONE)), request(Op::Limit(Cost::ONE))];
        if let Err(error) = run(store.apply_all(&both)) {
            assert_eq!(error.kind(), StoreErrorKind::Corrupt, "{numbers:?}: {error}");
        }
    }
    assert!(refused > 200 && answered > 0, "{refused} refused, {answered} answered");
}
