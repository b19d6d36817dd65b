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

/// Threads for the runtime: with two it was no faster, on a machine with two cores.
const THREADS: usize = 1;

/// All parts, or only the one whose name begins like that.
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

/// The server, what the store on it is asked with, and where its keys are.
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
        // Keys of this run alone.
        let prefix = format!("bench-{}", std::process::id());
        Server { url, prefix, store, runtime }
    }

    /// How many scripts the server has run by their hashes, and how many microseconds of a processor it has used.
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

    /// The script call that a decision about `key` is.
    fn decision(&self, limit: &str, key: &str, quota: &Quota) -> Cmd {
        self.store.command(&request(&Scope::new(&self.prefix, limit), &Key::from(key), quota))
    }

    /// Makes the script that decides by `quota` known to the server.
    fn load(&self, quota: &Quota) {
        let scope = Scope::new(&self.prefix, "load");
        let _ =
            self.runtime.block_on(self.store.apply(&request(&scope, &Key::GLOBAL, quota))).expect("the server answers");
    }
}

fn request<'a>(scope: &'a Scope, key: &'a Key<'a>, quota: &'a Quota) -> Request<'a> {
    Request { scope, key, quota, op: Op::Limit(Cost::ONE), on_store_error: OnStoreError::default() }
}

/// What a command consists of.
fn arguments(command: &Cmd) -> Vec<Vec<u8>> {
    let arguments = command.args_iter().map(|argument| match argument {
        Arg::Simple(bytes) => bytes.to_vec(),
        other => unreachable!("not in a script call: {other:?}"),
    });
    arguments.collect()
}
