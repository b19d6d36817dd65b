//! Stores on the servers that `cargo xtask test` has started.

use std::future::Future;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use redis::cluster_async::ClusterConnection;
use tidegate::redis::{RedisStore, RedisStoreBuilder};
use tidegate::{Clock, Colocation, SystemClock, seconds};
use tidegate_servers::variable;
use tidegate_testkit::Subject;
use tokio::runtime::{Builder, Runtime};

/// One runtime for all tests: connections belong to one.
static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap());

pub(crate) fn run<T>(work: impl Future<Output = T>) -> T {
    // What hangs fails, and does not keep the others from being tried.
    RUNTIME.block_on(async { tokio::time::timeout(seconds(300), work).await }).expect("it does not end")
}

/// A prefix that nobody has used before.
pub(crate) fn prefix() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let (now, next) = (SystemClock.now().as_micros(), NEXT.fetch_add(1, Ordering::Relaxed));
    format!("test-{now}-{}-{next}-", std::process::id())
}

pub(crate) fn redis() -> Subject<RedisStore> {
    static STORE: LazyLock<RedisStore> = LazyLock::new(|| single("TIDEGATE_REDIS_URL", RedisStore::builder()));
    subject(STORE.clone())
}

pub(crate) fn valkey() -> Subject<RedisStore> {
    static STORE: LazyLock<RedisStore> =
        LazyLock::new(|| single("TIDEGATE_VALKEY_URL", RedisStore::builder().hash_keys("a secret")));
    subject(STORE.clone())
}

pub(crate) fn cluster() -> Subject<RedisStore<ClusterConnection>> {
    static STORE: LazyLock<RedisStore<ClusterConnection>> =
        LazyLock::new(|| clustered(RedisStore::builder().colocation(Colocation::Prefix)));
    subject(STORE.clone())
}

pub(crate) fn single(url: &str, builder: RedisStoreBuilder) -> RedisStore {
    run(builder.connect(variable(url))).unwrap()
}

pub(crate) fn clustered(builder: RedisStoreBuilder) -> RedisStore<ClusterConnection> {
    let urls = variable("TIDEGATE_CLUSTER_URLS");
    run(builder.connect_cluster(urls.split(','))).unwrap()
}

fn subject<S: tidegate::store::Testing + 'static>(store: S) -> Subject<S> {
    Subject::new(store).prefixed(prefix()).run_with(run)
}
