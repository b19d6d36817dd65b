//! Redis and Valkey.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::{Process, retry_start, wait_until};

/// A slot of a cluster that moves from one node to another one. In between, it stays open.
pub struct SlotMove<'a> {
    slot: String,
    from: &'a Redis,
    to: &'a Redis,
}

impl<'a> SlotMove<'a> {
    /// Opens the slot of the key with this name. No key moves yet.
    ///
    /// # Panics
    ///
    /// Panics when the nodes are no cluster.
    pub fn open(nodes: &'a [Redis], name: &str) -> Self {
        let slot = nodes[0].cli(&["CLUSTER", "KEYSLOT", name]);
        let owns = |node: &&Redis| !node.cli(&["EXISTS", name]).contains("MOVED");
        let from = nodes.iter().find(owns).expect("the slot has an owner");
        let to = nodes.iter().rfind(|node| !owns(node)).expect("another node");
        let [from_id, to_id] = [from, to].map(|node| node.cli(&["CLUSTER", "MYID"]));
        assert_eq!(to.cli(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &from_id]), "OK");
        assert_eq!(from.cli(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &to_id]), "OK");
        SlotMove { slot, from, to }
    }

    /// Moves up to `count` of the keys that have not moved yet, and returns how many did.
    ///
    /// # Panics
    ///
    /// Panics when a key does not move.
    pub fn move_keys(&self, count: usize) -> usize {
        let names = self.from.cli(&["CLUSTER", "GETKEYSINSLOT", &self.slot, &count.to_string()]);
        let port = self.to.port().to_string();
        let is_moved = |name: &str| {
            let answer = self.from.cli(&["MIGRATE", "127.0.0.1", &port, name, "0", "10000"]);
            assert!(answer == "OK" || answer == "NOKEY", "{name}: {answer}");
            answer == "OK"
        };
        names.lines().filter(|name| is_moved(name)).count()
    }

    /// Moves the keys that are left, and closes the slot. The new owner learns of it first: the old one redirects calls until
    /// then.
    ///
    /// # Panics
    ///
    /// Panics when the slot does not close.
    pub fn close(self) {
        while self.move_keys(100) > 0 {}
        let id = self.to.cli(&["CLUSTER", "MYID"]);
        for node in [self.to, self.from] {
            assert_eq!(node.cli(&["CLUSTER", "SETSLOT", &self.slot, "NODE", &id]), "OK");
        }
    }
}

/// One Redis or Valkey that keeps nothing on disk. Dropping it kills it.
pub struct Redis {
    program: PathBuf,
    cli: PathBuf,
    arguments: Vec<String>,
    process: Process,
}

impl Redis {
    /// Starts an empty `program` with `more` arguments. Returns when it answers `cli`.
    pub fn start(program: &Path, cli: &Path, more: &[&str]) -> Result<Self, String> {
        retry_start(|| {
            let arguments = more.iter().map(|argument| (*argument).to_owned()).collect();
            let process = Process::new("redis")?;
            let mut redis = Redis { program: program.to_owned(), cli: cli.to_owned(), arguments, process };
            redis.spawn()?;
            Ok(redis)
        })
    }

    /// Three masters that share the slots, in order. Those that are up serve theirs while another one is down.
    pub fn cluster(program: &Path, cli: &Path) -> Result<Vec<Self>, String> {
        let more =
            ["--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--cluster-require-full-coverage", "no"];
        let nodes: Vec<Redis> = (0..3).map(|_| Redis::start(program, cli, &more)).collect::<Result<_, _>>()?;
        let mut create = Command::new(cli);
        create.args(["--cluster", "create"]).args(nodes.iter().map(|node| format!("127.0.0.1:{}", node.port())));
        let output = create.arg("--cluster-yes").output();
        let output = output.map_err(|error| format!("{} cannot be started: {error}", cli.display()))?;
        if !output.status.success() {
            let output_text = String::from_utf8_lossy(&output.stdout).into_owned();
            return Err(format!("the cluster is not made ({}):\n{output_text}", output.status));
        }
        for node in &nodes {
            if !wait_until(|| node.cli(&["CLUSTER", "INFO"]).contains("cluster_state:ok")) {
                return Err(format!("the cluster is not ready:\n{}", node.cli(&["CLUSTER", "INFO"])));
            }
        }
        Ok(nodes)
    }

    /// Returns its port.
    pub fn port(&self) -> u16 {
        self.process.port
    }

    /// Returns its address.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port())
    }

    /// Returns the output of `redis-cli` for a command, or an empty text when the server is down.
    pub fn cli(&self, command: &[&str]) -> String {
        let output = Command::new(&self.cli).args(["-p", &self.port().to_string()]).args(command).output();
        output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default()
    }

    /// Kills it with SIGKILL. Connections break, and new ones are refused.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Starts it again on the same port, empty, after killing it if it runs. Returns when it answers.
    pub fn restart(&mut self) {
        self.kill();
        self.spawn().expect("a server that starts again");
    }

    /// Pauses it with SIGSTOP. Connections stay, the kernel accepts new ones, and no answer comes.
    pub fn pause(&self) {
        self.process.signal("STOP");
    }

    /// Resumes it with SIGCONT. It answers everything that arrived meanwhile.
    pub fn resume(&self) {
        self.process.signal("CONT");
    }

    /// Returns its log.
    pub fn log(&self) -> String {
        self.process.log()
    }

    fn spawn(&mut self) -> Result<(), String> {
        let mut command = Command::new(&self.program);
        command.args(["--bind", "127.0.0.1", "--port", &self.port().to_string()]);
        command.args(["--save", "", "--appendonly", "no"]).args(&self.arguments);
        self.process.start(&mut command)?;
        // This server, and not another one that took the port first.
        let own = format!("process_id:{}", self.process.id());
        let (cli, port) = (self.cli.clone(), self.port().to_string());
        let is_ours = |_: &Process| {
            let output = Command::new(&cli).args(["-p", &port, "INFO", "server"]).output();
            output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).lines().any(|line| line.trim() == own))
        };
        if self.process.wait_until_ready(is_ours) {
            return Ok(());
        }
        Err(format!("{} does not start:\n{}", self.program.display(), self.process.log()))
    }
}
