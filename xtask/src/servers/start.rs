//! Starting servers as child processes, and stopping them whatever happens.

use std::fs::{self, File};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::cargo::Failed;

/// A server on a port and with a folder of its own. Dropping it kills the process and removes the folder.
pub(crate) struct Server {
    port: u16,
    folder: PathBuf,
    process: Child,
}

impl Server {
    /// Starts `program` with `more` arguments, and comes back when it answers.
    pub(crate) fn start(program: &Path, cli: &Path, more: &[&str]) -> Result<Self, Failed> {
        let mut last = String::new();
        // Between looking for a free port and taking it, somebody else can take it.
        for _ in 0..5 {
            let mut server = Self::spawn(program, more)?;
            if server.answers(cli) {
                return Ok(server);
            }
            last = fs::read_to_string(server.folder.join("log")).unwrap_or_default();
        }
        Err(Failed(format!("{} does not start:\n{last}", program.display())))
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    fn spawn(program: &Path, more: &[&str]) -> Result<Self, Failed> {
        let port = free_port()?;
        let folder = std::env::temp_dir().join(format!("tidegate-server-{port}-{}", std::process::id()));
        let in_folder = |error| Failed(format!("{}: {error}", folder.display()));
        fs::create_dir_all(&folder).map_err(in_folder)?;
        let log = File::create(folder.join("log")).map_err(in_folder)?;
        let mut command = Command::new(program);
        command.args(["--bind", "127.0.0.1", "--port", &port.to_string()]).args(["--save", "", "--appendonly", "no"]);
        command.args(more).current_dir(&folder).stdin(Stdio::null()).stdout(log);
        match command.spawn() {
            Ok(process) => Ok(Self { port, folder, process }),
            Err(error) => {
                let _ = fs::remove_dir_all(&folder); // the other error is the one to report
                Err(Failed(format!("{} cannot be started: {error}", program.display())))
            }
        }
    }

    /// Whether it, and not another server that was quicker to take the port, comes to answer.
    fn answers(&mut self, cli: &Path) -> bool {
        let own = format!("process_id:{}\r", self.process.id());
        let mut ended = false;
        wait_until(|| {
            ended = !matches!(self.process.try_wait(), Ok(None));
            ended || ask(cli, self.port, &["INFO", "server"]).contains(&own)
        }) && !ended
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

/// Three masters that share the slots.
pub(crate) fn cluster(program: &Path, cli: &Path) -> Result<Vec<Server>, Failed> {
    let more = ["--cluster-enabled", "yes", "--cluster-node-timeout", "2000"];
    let nodes: Vec<Server> = (0..3).map(|_| Server::start(program, cli, &more)).collect::<Result<_, _>>()?;
    let mut create = Command::new(cli);
    create.args(["--cluster", "create"]).args(nodes.iter().map(|node| format!("127.0.0.1:{}", node.port)));
    let output = create.arg("--cluster-yes").output();
    let output = output.map_err(|error| Failed(format!("{} cannot be started: {error}", cli.display())))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        return Err(Failed(format!("the cluster is not made ({}):\n{said}", output.status)));
    }
    for node in &nodes {
        if !wait_until(|| ask(cli, node.port, &["CLUSTER", "INFO"]).contains("cluster_state:ok")) {
            return Err(Failed(format!("the cluster is not ready:\n{}", ask(cli, node.port, &["CLUSTER", "INFO"]))));
        }
    }
    Ok(nodes)
}

/// What the server on `port` answers, and nothing when there is none.
fn ask(cli: &Path, port: u16, command: &[&str]) -> String {
    let output = Command::new(cli).args(["-p", &port.to_string()]).args(command).output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
}

/// Asks again and again, for ten seconds or a bit more.
#[allow(clippy::disallowed_methods)] // another process needs its time, and there is no clock to tell it by
fn wait_until(mut done: impl FnMut() -> bool) -> bool {
    (0..500).any(|_| {
        let done = done();
        if !done {
            std::thread::sleep(Duration::from_millis(20));
        }
        done
    })
}

/// A port that is free, as is the one 10,000 above, where a cluster's nodes talk to each other.
///
/// Both lie below the ports that systems give to outgoing connections: a client that looks for a server while that is
/// down must not take its port.
fn free_port() -> Result<u16, Failed> {
    let free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    let random = || 12_000 + (RandomState::new().build_hasher().finish() % 10_000) as u16;
    let mut ports = std::iter::repeat_with(random).take(1_000);
    ports.find(|&port| free(port) && free(port + 10_000)).ok_or_else(|| Failed("no port is free".to_owned()))
}
