//! Replays on a store that another limiter uses.

use tidegate::postgres::PostgresStore;
use tidegate::redis::RedisStore;
use tidegate::sqlite::SqliteStore;
use tidegate::{Clock, Limiter, Quota, SystemClock, days};
use tokio::runtime::{Builder, Runtime};

use super::on_each_store;
use crate::cli::store::TestStore;
use crate::cli::{simulate_on, write_file};

on_each_store!(other_users_of_the_store_are_not_affected);

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

/// Another limiter on the store, in real time.
async fn limiter(url: &str, prefix: &str) -> Limiter {
    let quota = Quota::token_bucket(5, days(300)).unwrap();
    let builder = Limiter::builder().prefix(prefix).limit("api", quota);
    let builder = match url.split_once(':').unwrap() {
        ("sqlite", path) => builder.store(SqliteStore::open(path).unwrap()),
        ("redis", _) => builder.store(RedisStore::connect(url).await.unwrap()),
        _ => builder.store(PostgresStore::connect(url).await.unwrap()),
    };
    builder.build().unwrap()
}

/// A replay with the limiter's config and key, at past and future times. It neither sees the other limiter's keys, nor
/// spends, removes or sweeps them.
fn other_users_of_the_store_are_not_affected(store: &TestStore) {
    let prefix = format!("neighbour-{}-{}", std::process::id(), SystemClock.now().as_micros());
    let (runtime, url) = (runtime(), &store.url);
    let limiter = runtime.block_on(limiter(url, &prefix));
    let taken = runtime.block_on(async { limiter.limit("api", "u1").cost(2).await }).unwrap();
    assert_eq!(taken.remaining(), 3);

    let config = format!(
        "[defaults]\nprefix = '{prefix}'\n[limits.api]\nalgorithm = 'token_bucket'\nrate = 5\nperiod = '300d'\n"
    );
    let config = write_file(&format!("neighbour-{}.toml", store.name), config);
    let line = |at: u64, op: &str, key: usize, cost: u64| {
        format!("{{\"at_ms\":{at},\"op\":\"{op}\",\"limit\":\"api\",\"key\":\"u{key}\",\"cost\":{cost}}}\n")
    };
    let mut trace = line(0, "limit", 1, 5) + &line(0, "reset", 1, 1);
    for key in 1..300 {
        trace += &line(9_007_199_254_740, "limit", key, 5);
    }
    let ran = simulate_on(store, &config, trace);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(ran.stdout.matches("\"allowed\":true").count(), 301, "{}", ran.stdout);

    let left = runtime.block_on(async { limiter.check("api", "u1").await }).unwrap();
    assert_eq!(left.remaining(), 3);
    let _ = runtime.block_on(async { limiter.reset("api", "u1").await }).unwrap();
    runtime.block_on(limiter.close());
    assert_eq!(store.count_keys(ran.id), 0);
}
