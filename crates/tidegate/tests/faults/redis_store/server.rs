//! Redis servers of single tests, which can be killed, paused and restarted.

use std::path::PathBuf;
use std::time::Duration;

use tidegate::redis::{ClusterConnection, RedisStore};
pub(crate) use tidegate_servers::{Redis, required_env, wait_until};

use crate::support::{Service, TIMEOUT, run};

/// Starts an empty server.
pub(crate) fn start() -> Redis {
    start_with(&[])
}

fn start_with(arguments: &[&str]) -> Redis {
    let [server, cli] = ["TIDEGATE_REDIS_SERVER", "TIDEGATE_REDIS_CLI"].map(|name| PathBuf::from(required_env(name)));
    Redis::start(&server, &cli, arguments).unwrap()
}

/// A service over a store on a server.
pub(crate) fn service(server: &Redis) -> Service<RedisStore> {
    service_at(&server.url())
}

/// A service over a store at a URL.
pub(crate) fn service_at(url: &str) -> Service<RedisStore> {
    Service::new(run(RedisStore::connect(url)).unwrap(), TIMEOUT)
}

/// A service whose timeout is so long that only an error of the store makes a call fail.
pub(crate) fn patient_service(server: &Redis) -> Service<RedisStore> {
    Service::new(run(RedisStore::connect(server.url())).unwrap(), Duration::from_secs(10))
}

pub(crate) fn cluster_service(urls: Vec<String>) -> Service<RedisStore<ClusterConnection>> {
    Service::new(run(RedisStore::builder().connect_cluster(urls)).unwrap(), TIMEOUT)
}

/// A cluster of three masters that share the slots, and a replica of the first.
pub(crate) struct Cluster {
    masters: [Redis; 3],
    replica: Redis,
}

impl Cluster {
    /// Starts an empty cluster, and returns when all nodes know each other and the replica follows its master.
    pub(crate) fn start() -> Self {
        let node = || {
            start_with(&[
                "--cluster-enabled",
                "yes",
                "--cluster-node-timeout",
                "1000",
                "--cluster-require-full-coverage",
                "no",
                // Otherwise a master waits for more replicas before it sends the first one its data.
                "--repl-diskless-sync-delay",
                "0",
            ])
        };
        let cluster = Self { masters: [node(), node(), node()], replica: node() };
        cluster.introduce_nodes();
        cluster.assign_slots();
        cluster.attach_replica();
        cluster
    }

    /// Every node's address: the masters', the first master's first, and then the replica's.
    pub(crate) fn urls(&self) -> Vec<String> {
        self.nodes().map(Redis::url).collect()
    }

    /// Kills the master that has a replica, and slots 0 to 5460, with SIGKILL.
    pub(crate) fn kill_first_master(&mut self) {
        self.masters[0].kill();
    }

    /// Stops that master with SIGSTOP.
    pub(crate) fn pause_first_master(&mut self) {
        self.masters[0].pause();
    }

    /// Returns when the replica is a master and the nodes that are left agree that no slot is without one.
    pub(crate) fn wait_for_failover(&self) {
        let promoted = wait_until(|| self.replica.cli(&["ROLE"]).starts_with("master"));
        assert!(promoted, "the replica is not promoted:\n{}", self.replica.cli(&["CLUSTER", "NODES"]));
        let left = self.nodes().skip(1);
        left.for_each(wait_until_all_slots_are_served);
    }

    fn nodes(&self) -> impl Iterator<Item = &Redis> {
        self.masters.iter().chain([&self.replica])
    }

    fn introduce_nodes(&self) {
        for (epoch, node) in self.nodes().enumerate() {
            // Nodes without epochs of their own would have to resolve a conflict first.
            assert_eq!(node.cli(&["CLUSTER", "SET-CONFIG-EPOCH", &(epoch + 1).to_string()]), "OK");
        }
        for node in self.nodes().skip(1) {
            let port = node.port().to_string();
            assert_eq!(self.masters[0].cli(&["CLUSTER", "MEET", "127.0.0.1", &port]), "OK");
        }
        for node in self.nodes() {
            let met = wait_until(|| {
                let known = node.cli(&["CLUSTER", "NODES"]);
                known.lines().count() == 4 && !known.contains("handshake")
            });
            assert!(met, "the nodes do not meet:\n{}", node.cli(&["CLUSTER", "NODES"]));
        }
    }

    fn assign_slots(&self) {
        for (master, (first, last)) in self.masters.iter().zip([("0", "5460"), ("5461", "10922"), ("10923", "16383")]) {
            assert_eq!(master.cli(&["CLUSTER", "ADDSLOTSRANGE", first, last]), "OK");
        }
        self.nodes().for_each(wait_until_all_slots_are_served);
    }

    fn attach_replica(&self) {
        let first = self.masters[0].cli(&["CLUSTER", "MYID"]);
        assert_eq!(self.replica.cli(&["CLUSTER", "REPLICATE", &first]), "OK");
        // Every node has to know: the masters vote, and a client asks any of them.
        for node in self.nodes() {
            let followed = wait_until(|| node.cli(&["CLUSTER", "REPLICAS", &first]).contains("connected"));
            assert!(followed, "the replica does not follow:\n{}", node.cli(&["CLUSTER", "NODES"]));
        }
        let linked = wait_until(|| self.replica.cli(&["INFO", "replication"]).contains("master_link_status:up"));
        assert!(linked, "the replica has no data:\n{}", self.replica.log());
    }
}

fn wait_until_all_slots_are_served(node: &Redis) {
    let served = wait_until(|| {
        let info = node.cli(&["CLUSTER", "INFO"]);
        info.contains("cluster_state:ok") && info.contains("cluster_slots_ok:16384")
    });
    assert!(served, "the cluster is not ready:\n{}", node.cli(&["CLUSTER", "INFO"]));
}
