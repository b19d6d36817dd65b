//! The benchmark of the Redis store: decisions per second, shared calls, cost for the server, and two-tier stores.

mod calls;
mod clients;
mod coalesce;
mod cost;
mod program;
mod throughput;
mod two_tier;

use redis::{Arg, Client, Cmd};
use tidegate::redis::RedisStore;
use tidegate::store::{Op, Request, Scope};
use tidegate::{Cost, Key, OnStoreError, Quota, Store};
use tidegate_servers::required_env;
use tokio::runtime::{Builder, Runtime};
pub(crate) use two_tier::process;

/// The threads of the runtime. Two were no faster on a machine with two cores.
const THREADS: usize = 1;

/// Runs all parts, or those with this prefix.
pub(crate) fn run(only: &str) {
    crate::is_one_of(only, &["throughput", "coalesce", "cost", "two_tier"]);
    let server = Server::new();
    if "throughput".starts_with(only) {
        throughput::run(&server);
    }
    if "coalesce".starts_with(only) {
        coalesce::run(&server);
    }
    if "cost".starts_with(only) {
        cost::run(&server);
    }
    if "two_tier".starts_with(only) {
        two_tier::run(&server);
    }
}

/// The server, the store on it with its runtime, and the prefix of its keys.
struct Server {
    url: String,
    prefix: String,
    store: RedisStore,
    runtime: Runtime,
}

impl Server {
    fn new() -> Self {
        let url = required_env("TIDEGATE_REDIS_URL");
        let runtime = Builder::new_multi_thread().worker_threads(THREADS).enable_all().build().expect("a runtime");
        let store = runtime.block_on(RedisStore::connect(&*url)).expect("a server that answers");
        // The keys of this run only.
        let prefix = format!("bench-{}", std::process::id());
        Server { url, prefix, store, runtime }
    }

    /// Returns the number of scripts that the server has run by hash, and its CPU time in microseconds.
    fn spent(&self) -> [u64; 2] {
        let mut connection = Client::open(&*self.url).and_then(|client| client.get_connection()).expect("a connection");
        let mut ask = |section: &str| -> String {
            redis::cmd("INFO").arg(section).query(&mut connection).expect("the server answers")
        };
        let (stats, cpu) = (ask("commandstats"), ask("cpu"));
        let calls = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
        let used = ["used_cpu_user:", "used_cpu_sys:"].map(|name| {
            let seconds = cpu.lines().find_map(|line| line.strip_prefix(name)).expect("as Redis has it");
            (seconds.parse::<f64>().expect("a number") * 1e6) as u64
        });
        [calls.and_then(|line| line.split(',').next()?.parse().ok()).unwrap_or(0), used.iter().sum()]
    }

    /// Returns the script call for a decision about `key`.
    fn decision(&self, limit: &str, key: &str, quota: &Quota) -> Cmd {
        self.store.command(&request(&Scope::new(&self.prefix, limit), &Key::from(key), quota))
    }

    /// Loads the script for `quota` into the server.
    fn load(&self, quota: &Quota) {
        let scope = Scope::new(&self.prefix, "load");
        let _ =
            self.runtime.block_on(self.store.apply(&request(&scope, &Key::GLOBAL, quota))).expect("the server answers");
    }
}

fn request<'a>(scope: &'a Scope, key: &'a Key<'a>, quota: &'a Quota) -> Request<'a> {
    Request { scope, key, quota, op: Op::Limit(Cost::ONE), on_store_error: OnStoreError::default() }
}

/// Returns the arguments of a command.
fn arguments(command: &Cmd) -> Vec<Vec<u8>> {
    let arguments = command.args_iter().map(|argument| match argument {
        Arg::Simple(bytes) => bytes.to_vec(),
        other => unreachable!("not in a script call: {other:?}"),
    });
    arguments.collect()
}
