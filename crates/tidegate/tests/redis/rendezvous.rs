//! The rendezvous store over a Redis and a Valkey.

use tidegate::redis::RedisStore;
use tidegate::{Colocation, Limiter, Quota, RendezvousStore, days};

use crate::support::{connect_single, run, unique_prefix};

#[test]
fn redis_and_valkey_form_one_store() {
    let quota = Quota::sliding_log(2, days(1)).unwrap();
    let servers = ["TIDEGATE_REDIS_URL", "TIDEGATE_VALKEY_URL"];
    let store = RendezvousStore::new(servers.map(|url| (url, connect_single(url, RedisStore::builder()))))
        .colocation(Colocation::Key);
    let limits = Limiter::builder().prefix(unique_prefix()).limit("a", quota).limit("b", quota);
    let limiter = limits.bare_store(store).build().unwrap();
    for user in ["u1", "u2", "u3", "u4", "u5", "u6"] {
        let taken: Vec<_> = (0..3)
            .map(|_| {
                let calls = [limiter.limit("a", user), limiter.limit("b", user)];
                run(async { limiter.limit_all(calls).await }).unwrap().allowed()
            })
            .collect();
        assert_eq!(taken, [true, true, false]);
    }
}
