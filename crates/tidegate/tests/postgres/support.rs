//! Stores on the servers that `cargo xtask test` has started.

use std::future::Future;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use deadpool_postgres::{Manager, Pool};
use tidegate::postgres::{PostgresStore, PostgresStoreBuilder};
use tidegate::{Clock, SystemClock, seconds};
use tidegate_servers::required_env;
use tidegate_testkit::Subject;
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::{Client, NoTls};

/// One runtime for all tests: connections belong to one.
static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap());

pub(crate) fn run<T>(work: impl Future<Output = T>) -> T {
    // A test that hangs fails, and does not keep others from running.
    RUNTIME.block_on(async { tokio::time::timeout(seconds(300), work).await }).expect("it does not end")
}

/// Returns a new name for a table, a role or a prefix of keys.
pub(crate) fn unique_name(prefix: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let (now, next) = (SystemClock.now().as_micros(), NEXT.fetch_add(1, Ordering::Relaxed));
    format!("{prefix}_{now}_{}_{next}", std::process::id())
}

/// Returns the address of the shared server. A commit there does not wait for the disk, which most tests do not depend
/// on.
pub(crate) fn url() -> String {
    format!("{}?options=-c%20synchronous_commit%3Doff", required_env("TIDEGATE_POSTGRES_URL"))
}

/// A store on the shared server, in a table of its own.
pub(crate) fn store() -> PostgresStore {
    store_in_table(&unique_name("t"))
}

pub(crate) fn store_in_table(table: &str) -> PostgresStore {
    run(builder(table).connect(&url())).unwrap()
}

pub(crate) fn builder(table: &str) -> PostgresStoreBuilder {
    PostgresStore::builder().table(table).unwrap()
}

/// A pool of the test's own to the shared server.
pub(crate) fn pool() -> Pool {
    let manager = Manager::new(url().parse().unwrap(), NoTls);
    Pool::builder(manager).max_size(4).build().unwrap()
}

/// A connection of the test's own to the shared server.
pub(crate) fn client() -> Client {
    client_to(&url())
}

pub(crate) fn client_to(url: &str) -> Client {
    run(async {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    })
}

/// Returns a subject for the suite and the oracle. Subjects of one store share its table, but not their keys.
pub(crate) fn subject(store: &PostgresStore) -> Subject<PostgresStore> {
    Subject::new(store.clone()).with_prefix(unique_name("p")).with_runner(run)
}
