//! Names of keys, as they can be read in Redis.

use tidegate::redis::RedisStore;
use tidegate::{Limiter, Quota, days};

use crate::support::{connect_single, run, unique_prefix};
use tidegate_servers::required_env;

fn keys_with_prefix(prefix: &str) -> Vec<String> {
    let mut connection = redis::Client::open(required_env("TIDEGATE_REDIS_URL")).unwrap().get_connection().unwrap();
    redis::cmd("KEYS").arg(format!("{prefix}*")).query(&mut connection).unwrap()
}

#[test]
fn key_names_hold_prefix_limit_and_key_or_its_hash() {
    let quota = Quota::fixed_window(3, days(300)).unwrap();
    for secret in [None, Some("a secret")] {
        let prefix = unique_prefix();
        let builder = RedisStore::builder();
        let builder = secret.map_or(builder.clone(), |secret| builder.hash_keys(secret));
        let store = connect_single("TIDEGATE_REDIS_URL", builder);
        let limiter = Limiter::builder().prefix(&prefix).limit("login", quota).bare_store(store).build().unwrap();
        for remaining in [2, 1, 0] {
            let decision = run(limiter.limit("login", "alice@example.org").into_future()).unwrap();
            assert_eq!(decision.remaining(), remaining);
        }
        let names = keys_with_prefix(&prefix);
        assert_eq!(names.len(), 1);
        match secret {
            None => assert_eq!(names[0], format!("{prefix}|login|alice@example.org")),
            Some(_) => assert!(!names[0].contains("alice"), "{}", names[0]),
        }
    }
}
