//! Decisions per second of the Postgres store, compared with a bare `UPDATE ... RETURNING` through the same client.

use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod};
use tidegate::postgres::PostgresStore;
use tidegate::{Limiter, MAX_PERIOD, Quota, hours};
use tidegate_servers::required_env;
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::types::Type;
use tokio_postgres::{Config, NoTls};

use crate::server_load::{KEYS, LoadClient, key_text, measure_rate};
use crate::workload::{median, median_ratio};

/// Rounds: many short ones.
const ROUNDS: usize = 15;
/// The connections in a pool, equal for the bare statements and the store.
const CONNECTIONS: usize = 8;
/// The threads of the runtime.
const THREADS: usize = 1;
const LIMIT: &str = "bench";

pub(crate) fn run() {
    let runtime = Builder::new_multi_thread().worker_threads(THREADS).enable_all().build().expect("a runtime");
    println!(
        "\nDecisions a second on Postgres through {CONNECTIONS} connections, {KEYS} keys, all allowed except in the line `denied`,"
    );
    println!(
        "the median of {ROUNDS} rounds, and the ratio to a bare UPDATE ... SET n = n + 1 ... RETURNING n through this client"
    );
    println!("and as many connections. Both are sent in one piece, as a pooler requires, or prepared once for each");
    println!("connection (PostgresStoreBuilder::prepared).");
    for commit in ["on", "off"] {
        measure(&runtime, commit);
    }
}

fn measure(runtime: &Runtime, commit: &str) {
    let url = format!("{}?options=-c%20synchronous_commit%3D{commit}", required_env("TIDEGATE_POSTGRES_URL"));
    for prepared in [false, true] {
        let server = runtime.block_on(Server::new(&url, prepared));
        println!("\nsynchronous_commit = {commit}, {}", if prepared { "prepared" } else { "in one piece" });
        let names = server.decide.iter().map(|decide| format!("{:>16}", decide.name)).collect::<String>();
        println!("{:<11} {:>8}{names}", "concurrency", "UPDATE");
        for (concurrency, requests) in [(1, 1_000), (8, 4_000), (64, 4_000)] {
            let (mut bare, mut decided) = (Vec::new(), vec![Vec::new(); server.decide.len()]);
            for _ in 0..ROUNDS {
                bare.push(runtime.block_on(measure_rate(&server.bare, concurrency, requests)));
                for (decide, rates) in server.decide.iter().zip(&mut decided) {
                    rates.push(runtime.block_on(measure_rate(decide, concurrency, requests)));
                }
            }
            let part =
                |rates: &Vec<f64>| format!("{:.0} ({:.2}x)", median(rates.iter().copied()), median_ratio(rates, &bare));
            let parts = decided.iter().map(|rates| format!("{:>16}", part(rates)));
            println!("{concurrency:<11} {:>8.0}{}", median(bare.iter().copied()), parts.collect::<String>());
        }
    }
}

/// The clients under test, with tables of this run only.
struct Server {
    decide: Vec<LimiterClient>,
    bare: UpdateClient,
}

impl Server {
    async fn new(url: &str, prepared: bool) -> Self {
        let (table, pool) = (format!("bench_{}", std::process::id()), pool(url));
        let client = pool.get().await.expect("a server that answers");
        let make = format!(
            "DROP TABLE IF EXISTS {table}, {table}_bare; \
             CREATE TABLE {table}_bare (key bytea PRIMARY KEY, n bigint NOT NULL) WITH (fillfactor = 70)"
        );
        client.batch_execute(&make).await.expect("a table");
        for number in 0..KEYS {
            let insert = format!("INSERT INTO {table}_bare VALUES ($1, 0)");
            client.execute(&insert, &[&key_text(number).into_bytes()]).await.expect("a row");
        }
        let store = PostgresStore::builder().table(&table).expect("a name").connections(CONNECTIONS);
        let store = if prepared { store.prepared() } else { store };
        let store = store.connect(url).await.expect("a server that answers");
        // Large quotas, so that every decision is allowed and writes, and one small quota that always denies.
        let quotas = [
            ("token bucket", Quota::token_bucket(1_000, hours(1)).and_then(|quota| quota.capacity(1_000_000)), true),
            ("fixed window", Quota::fixed_window(1_000_000, hours(1)), true),
            ("sliding window", Quota::sliding_window(1_000_000, hours(1)), true),
            ("denied", Quota::token_bucket(1, MAX_PERIOD), false),
        ];
        let decide: Vec<LimiterClient> = quotas
            .into_iter()
            .map(|(name, quota, allowed)| LimiterClient::new(&store, name, quota.expect("a valid quota"), allowed))
            .collect();
        for number in 0..KEYS {
            // Creates all rows before the measurement, and exhausts those that deny.
            for decide in &decide {
                let _ = decide.limiter.limit(LIMIT, key_text(number)).await.expect("the server answers");
            }
        }
        let statement = format!("UPDATE {table}_bare SET n = n + 1 WHERE key = $1 RETURNING n");
        Server { decide, bare: UpdateClient { pool, statement, prepared } }
    }
}

fn pool(url: &str) -> Pool {
    let config: Config = url.parse().expect("an address");
    let manager = Manager::from_config(config, NoTls, ManagerConfig { recycling_method: RecyclingMethod::Fast });
    Pool::builder(manager).max_size(CONNECTIONS).build().expect("a pool")
}

/// A client that makes decisions as a service does.
#[derive(Clone)]
struct LimiterClient {
    name: &'static str,
    limiter: Limiter,
    allowed: bool,
}

impl LimiterClient {
    fn new(store: &PostgresStore, name: &'static str, quota: Quota, allowed: bool) -> Self {
        let limiter = Limiter::builder().prefix(name).limit(LIMIT, quota).store(store.clone());
        LimiterClient { name, limiter: limiter.build().expect("a valid limiter"), allowed }
    }
}

impl LoadClient for LimiterClient {
    async fn send(&self, key: String) {
        let decision = self.limiter.limit(LIMIT, key).await.expect("the server answers");
        assert_eq!(decision.allowed(), self.allowed);
    }
}

/// A client that runs a bare statement on one row.
#[derive(Clone)]
struct UpdateClient {
    pool: Pool,
    statement: String,
    prepared: bool,
}

impl LoadClient for UpdateClient {
    async fn send(&self, key: String) {
        let client = self.pool.get().await.expect("a connection");
        let key = key.into_bytes();
        let row = if self.prepared {
            let statement = client.prepare_cached(&self.statement).await.expect("a statement");
            client.query_one(&statement, &[&key]).await
        } else {
            client.query_typed_one(&self.statement, &[(&key, Type::BYTEA)]).await
        };
        let _: i64 = row.expect("a row").get(0);
    }
}
