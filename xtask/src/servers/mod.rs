//! The servers of the tests: installed if missing, started on free loopback ports, stopped at the end.

mod cache;
pub(crate) mod crates;
pub(crate) mod debian;
mod node;
pub(crate) mod peers;
mod programs;
mod pypi;

use std::io::stdin;
use std::path::Path;

use tidegate_servers::{PgBouncer, Postgres, Redis};

use crate::cargo::TaskError;
use programs::Programs;

/// A Redis, a Valkey, a cluster of three, a Postgres and a pooler before it. Dropping it stops them all.
pub(crate) struct Servers {
    programs: Programs,
    redis: Redis,
    valkey: Redis,
    cluster: Vec<Redis>,
    pooler: PgBouncer,
    postgres: Postgres,
}

impl Servers {
    /// Starts servers for tests, which do not wait for the disk.
    pub(crate) fn start() -> Result<Self, TaskError> {
        Self::with_settings(&[Postgres::NO_FSYNC])
    }

    /// Starts servers for measurements, which keep their data as in production.
    pub(crate) fn start_durable() -> Result<Self, TaskError> {
        Self::with_settings(&[])
    }

    fn with_settings(postgres_settings: &[&str]) -> Result<Self, TaskError> {
        println!("\n== servers");
        tidegate_servers::remove_leftovers();
        let programs = programs::find_programs()?;
        let (redis, cli) = (&programs.redis_server, &programs.redis_cli);
        let postgres = Postgres::start(&programs.postgres, postgres_settings)?;
        let servers = Self {
            redis: Redis::start(redis, cli, &[])?,
            valkey: Redis::start(&programs.valkey_server, cli, &[])?,
            cluster: Redis::cluster(redis, cli)?,
            pooler: PgBouncer::start(&programs.pgbouncer, &postgres)?,
            postgres,
            programs,
        };
        println!("== servers: started");
        Ok(servers)
    }

    /// Returns the environment variables by which tests find them.
    pub(crate) fn environment(&self) -> Vec<(&'static str, String)> {
        let path = |path: &Path| path.display().to_string();
        let cluster: Vec<String> = self.cluster.iter().map(Redis::url).collect();
        let mut environment = vec![
            ("TIDEGATE_REDIS_URL", self.redis.url()),
            ("TIDEGATE_VALKEY_URL", self.valkey.url()),
            ("TIDEGATE_CLUSTER_URLS", cluster.join(",")),
            ("TIDEGATE_POSTGRES_URL", self.postgres.url()),
            ("TIDEGATE_PGBOUNCER_URL", self.pooler.url()),
            ("TIDEGATE_REDIS_SERVER", path(&self.programs.redis_server)),
            ("TIDEGATE_VALKEY_SERVER", path(&self.programs.valkey_server)),
            ("TIDEGATE_REDIS_CLI", path(&self.programs.redis_cli)),
            ("TIDEGATE_REDIS_BENCHMARK", path(&self.programs.redis_benchmark)),
            ("TIDEGATE_REDIS_PY", path(&self.programs.redis_py)),
            ("TIDEGATE_IOREDIS", path(&self.programs.ioredis)),
            ("TIDEGATE_WS_KIT", path(&self.programs.ws_kit)),
            ("TIDEGATE_CHROMIUM", path(&self.programs.chromium)),
            ("TIDEGATE_CHROMEDRIVER", path(&self.programs.chromedriver)),
            ("TIDEGATE_PROMETHEUS_CLIENT", path(&self.programs.prometheus_client)),
            ("TIDEGATE_PROMETHEUS", path(&self.programs.prometheus)),
            ("TIDEGATE_ENVOY", path(&self.programs.envoy)),
            ("TIDEGATE_MINIFLARE", path(&self.programs.miniflare)),
            ("TIDEGATE_WORKER", path(&self.programs.worker)),
            ("TIDEGATE_EXAMPLE_WORKER", path(&self.programs.example_worker)),
            ("TIDEGATE_POSTGRES_PROGRAMS", path(&self.programs.postgres)),
        ];
        environment.extend(self.programs.path().map(|path| ("PATH", path)));
        environment
    }
}

/// `cargo xtask servers`: runs the servers for manual work, until Enter or the end of the input.
pub(crate) fn run() -> Result<(), TaskError> {
    let servers = Servers::start()?;
    println!();
    for (name, value) in servers.environment() {
        println!("export {name}='{value}'");
    }
    println!("\nEnter stops them.");
    stdin().read_line(&mut String::new()).map_err(|error| TaskError(format!("stdin: {error}")))?;
    Ok(())
}
