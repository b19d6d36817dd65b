//! Servers of a test's own, to kill, to stop and to start again.

use std::fs::{self, File};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// One Redis on a port and with a folder of its own. Dropping it kills the process and removes the folder.
pub(crate) struct Server {
    port: u16,
    folder: PathBuf,
    arguments: Vec<&'static str>,
    process: Child,
}

impl Server {
    /// Starts one, empty, and comes back when it answers.
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Kills it with SIGKILL: connections break, and new ones are refused.
    pub(crate) fn kill(&mut self) {
        self.process.kill().expect("a server that can be killed");
        self.process.wait().expect("a server that has ended");
    }

    /// Starts it again on the same port, empty, killed first if it runs, and comes back when it answers.
    pub(crate) fn restart(&mut self) {
        self.kill();
        self.process = spawn(self.port, &self.folder, &self.arguments);
        assert!(self.answers(), "the server does not start again:\n{}", self.log());
    }

    /// Stops it with SIGSTOP: connections stay, new ones are accepted by the kernel, and no answer comes.
    pub(crate) fn stop_answering(&self) {
        self.signal("STOP");
    }

    /// Lets it go on with SIGCONT: it answers all that has come in meanwhile.
    pub(crate) fn go_on(&self) {
        self.signal("CONT");
    }

    /// What `redis-cli` prints for a command; nothing when the server is down.
    pub(crate) fn cli(&self, command: &[&str]) -> String {
        let mut cli = Command::new(program("TIDEGATE_REDIS_CLI"));
        let output = cli.args(["-p", &self.port.to_string()]).args(command).output();
        String::from_utf8_lossy(&output.expect("redis-cli").stdout).trim().to_owned()
    }

    fn start_with(arguments: &[&'static str]) -> Self {
        let mut last = String::new();
        // Between looking for a free port and taking it, another test can take it.
        for _ in 0..5 {
            let port = free_port();
            let folder = std::env::temp_dir().join(format!("tidegate-fault-{port}-{}", std::process::id()));
            let process = spawn(port, &folder, arguments);
            let mut server = Self { port, folder, arguments: arguments.to_vec(), process };
            if server.answers() {
                return server;
            }
            last = server.log();
        }
        panic!("the server does not start:\n{last}");
    }

    /// Whether it, and not another server that was quicker to take the port, comes to answer.
    fn answers(&mut self) -> bool {
        let own = format!("process_id:{}\r", self.process.id());
        let mut ended = false;
        wait_until(|| {
            ended = !matches!(self.process.try_wait(), Ok(None));
            ended || self.cli(&["INFO", "server"]).contains(&own)
        }) && !ended
    }

    fn signal(&self, name: &str) {
        let status = Command::new("kill").args([&format!("-{name}"), &self.process.id().to_string()]).status();
        assert!(status.expect("the program kill").success(), "SIG{name} is not delivered");
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Nothing can be done about an error here, and a process that has already ended is none.
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Three masters that share the slots, and a replica of the first.
pub(crate) struct Cluster {
    masters: [Server; 3],
    replica: Server,
}

impl Cluster {
    /// Starts one, empty, and comes back when all nodes know each other and the replica follows its master.
    pub(crate) fn start() -> Self {
        let node = || {
            Server::start_with(&[
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
        cluster.meet();
        cluster.share_the_slots();
        cluster.follow();
        cluster
    }

    /// Every node's address: the masters', the first master's first, and then the replica's.
    pub(crate) fn urls(&self) -> Vec<String> {
        self.nodes().map(Server::url).collect()
    }

    /// Kills the master that has a replica, and slots 0 to 5460, with SIGKILL.
    pub(crate) fn kill_first_master(&mut self) {
        self.masters[0].kill();
    }

    /// Comes back when the replica is a master and the nodes that are left agree that no slot is without one.
    pub(crate) fn wait_for_failover(&self) {
        let promoted = wait_until(|| self.replica.cli(&["ROLE"]).starts_with("master"));
        assert!(promoted, "the replica is not promoted:\n{}", self.replica.cli(&["CLUSTER", "NODES"]));
        let left = self.nodes().skip(1);
        left.for_each(wait_until_all_slots_are_served);
    }

    fn nodes(&self) -> impl Iterator<Item = &Server> {
        self.masters.iter().chain([&self.replica])
    }

    fn meet(&self) {
        for (epoch, node) in self.nodes().enumerate() {
            // Without an epoch of its own each, the nodes would have to sort out who is right.
            assert_eq!(node.cli(&["CLUSTER", "SET-CONFIG-EPOCH", &(epoch + 1).to_string()]), "OK");
        }
        for node in self.nodes().skip(1) {
            let port = node.port.to_string();
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

    fn share_the_slots(&self) {
        for (master, (first, last)) in self.masters.iter().zip([("0", "5460"), ("5461", "10922"), ("10923", "16383")]) {
            assert_eq!(master.cli(&["CLUSTER", "ADDSLOTSRANGE", first, last]), "OK");
        }
        self.nodes().for_each(wait_until_all_slots_are_served);
    }

    fn follow(&self) {
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

fn wait_until_all_slots_are_served(node: &Server) {
    let served = wait_until(|| {
        let info = node.cli(&["CLUSTER", "INFO"]);
        info.contains("cluster_state:ok") && info.contains("cluster_slots_ok:16384")
    });
    assert!(served, "the cluster is not ready:\n{}", node.cli(&["CLUSTER", "INFO"]));
}

/// Starts the process. Nothing is written to disk, so it is empty.
fn spawn(port: u16, folder: &Path, arguments: &[&str]) -> Child {
    let mut command = Command::new(program("TIDEGATE_REDIS_SERVER"));
    fs::create_dir_all(folder).expect("a temporary folder");
    let log = File::options().create(true).append(true).open(folder.join("log")).expect("a log");
    command.args(["--bind", "127.0.0.1", "--port", &port.to_string()]).args(["--save", "", "--appendonly", "no"]);
    command.args(arguments).current_dir(folder).stdin(Stdio::null()).stdout(log);
    command.spawn().expect("a redis-server that can be started")
}

fn program(variable: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| {
        panic!("{variable} is not set: run `cargo xtask test`, or `cargo xtask servers` and export what it prints")
    })
}

/// Asks again and again, for twenty seconds or a bit more.
#[allow(clippy::disallowed_methods)] // another process needs its time, and there is no clock to tell it by
pub(crate) fn wait_until(mut done: impl FnMut() -> bool) -> bool {
    (0..1_000).any(|_| {
        let done = done();
        if !done {
            std::thread::sleep(Duration::from_millis(20));
        }
        done
    })
}

/// A port that is free, as is the one 10,000 above, where a cluster's nodes talk to each other.
///
/// Both lie below the ports that systems give to outgoing connections: a client that looks for a killed server must not
/// take its port.
fn free_port() -> u16 {
    let free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    let random = || 12_000 + (RandomState::new().build_hasher().finish() % 10_000) as u16;
    let mut ports = std::iter::repeat_with(random).take(1_000);
    ports.find(|&port| free(port) && free(port + 10_000)).expect("a free port")
}
