//! Stores on the servers that `cargo xtask test` starts.

use std::future::Future;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate::redis::{ClusterConnection, RedisStore, RedisStoreBuilder};
use tidegate::{Clock, Colocation, SystemClock, seconds};
use tidegate_servers::required_env;
use tidegate_testkit::Subject;
use tokio::runtime::{Builder, Runtime};

/// One runtime for all tests: connections belong to one.
static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap());

pub(crate) fn run<T>(work: impl Future<Output = T>) -> T {
    // A test that hangs fails, and does not keep others from running.
    RUNTIME.block_on(async { tokio::time::timeout(seconds(300), work).await }).expect("it does not end")
}

/// A prefix that no test has used before.
pub(crate) fn unique_prefix() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let (now, next) = (SystemClock.now().as_micros(), NEXT.fetch_add(1, Ordering::Relaxed));
    format!("test-{now}-{}-{next}-", std::process::id())
}

pub(crate) fn redis_subject() -> Subject<RedisStore> {
    static STORE: LazyLock<RedisStore> = LazyLock::new(|| connect_single("TIDEGATE_REDIS_URL", RedisStore::builder()));
    subject(STORE.clone())
}

pub(crate) fn valkey_subject() -> Subject<RedisStore> {
    static STORE: LazyLock<RedisStore> =
        LazyLock::new(|| connect_single("TIDEGATE_VALKEY_URL", RedisStore::builder().hash_keys("a secret")));
    subject(STORE.clone())
}

pub(crate) fn cluster_subject() -> Subject<RedisStore<ClusterConnection>> {
    static STORE: LazyLock<RedisStore<ClusterConnection>> =
        LazyLock::new(|| connect_cluster(RedisStore::builder().colocation(Colocation::Prefix)));
    subject(STORE.clone())
}

pub(crate) fn connect_single(url: &str, builder: RedisStoreBuilder) -> RedisStore {
    run(builder.connect(required_env(url))).unwrap()
}

pub(crate) fn connect_cluster(builder: RedisStoreBuilder) -> RedisStore<ClusterConnection> {
    let urls = required_env("TIDEGATE_CLUSTER_URLS");
    run(builder.connect_cluster(urls.split(','))).unwrap()
}

fn subject<S: tidegate::store::TestableStore + 'static>(store: S) -> Subject<S> {
    Subject::new(store).with_prefix(unique_prefix()).with_runner(run)
}
