//! Postgres.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::process::{Process, retry_start};
use crate::user::User;

/// A Postgres with an empty database in a folder of its own. Dropping it kills it and removes the folder.
pub struct Postgres {
    programs: PathBuf,
    settings: Vec<String>,
    process: Process,
}

impl Postgres {
    /// The setting of a server whose commits do not wait for the disk, so that a busy disk does not slow tests down.
    /// Commits are still written before they are answered. A server that was killed has them after a restart; only a
    /// machine that loses power does not.
    pub const NO_FSYNC: &str = "fsync=off";

    /// Starts the Postgres in the folder `programs`, with settings such as [`Postgres::NO_FSYNC`]. Returns when it
    /// answers.
    pub fn start(programs: &Path, settings: &[&str]) -> Result<Self, String> {
        retry_start(|| {
            let settings = settings.iter().map(|setting| (*setting).to_owned()).collect();
            let mut postgres = Postgres { programs: programs.to_owned(), settings, process: Process::new("postgres")? };
            postgres.make_database()?;
            postgres.spawn()?;
            Ok(postgres)
        })
    }

    /// Returns its port.
    pub fn port(&self) -> u16 {
        self.process.port
    }

    /// Returns the address of its database.
    pub fn url(&self) -> String {
        format!("postgres://tidegate@127.0.0.1:{}/postgres", self.port())
    }

    /// Gives it the ownership of a file or folder.
    pub fn chown(&self, path: &Path) -> Result<(), String> {
        User::unprivileged()?.chown(path)
    }

    /// Stops it as an operator would: connections are closed, and committed data is on the disk.
    pub fn stop(&mut self) {
        self.process.signal_and_wait("INT");
    }

    /// Kills it with SIGQUIT, which ends all its processes at once, without a write to the disk.
    pub fn crash(&mut self) {
        self.process.signal_and_wait("QUIT");
    }

    /// Starts it again on its data. Returns when it answers.
    pub fn restart(&mut self) {
        self.spawn().expect("a server that starts again");
    }

    /// Pauses all its processes with SIGSTOP. Connections stay, the kernel accepts new ones, and no answer comes.
    pub fn pause(&self) {
        // The parent first, because it would start others.
        self.process.signal("STOP");
        self.process.signal_children("STOP");
    }

    /// Resumes it with SIGCONT. It answers everything that arrived meanwhile.
    pub fn resume(&self) {
        self.process.signal_children("CONT");
        self.process.signal("CONT");
    }

    /// Returns the output of `psql` for a statement, unaligned and without headers, or the text of the error.
    pub fn sql(&self, statement: &str) -> String {
        let mut psql = Command::new(self.programs.join("psql"));
        psql.args(["--no-psqlrc", "--tuples-only", "--no-align", "--command", statement, &self.url()]);
        let output = psql.stdin(Stdio::null()).output().expect("psql");
        let text = if output.status.success() { output.stdout } else { output.stderr };
        String::from_utf8_lossy(&text).trim().to_owned()
    }

    fn make_database(&self) -> Result<(), String> {
        let user = User::unprivileged()?;
        user.chown(self.process.folder())?;
        let mut make = user.command(&self.programs.join("initdb"));
        make.args(["--pgdata", "data", "--username", "tidegate", "--auth", "trust", "--encoding", "UTF8"]);
        make.args(["--locale", "C", "--no-sync"]).current_dir(self.process.folder()).stdin(Stdio::null());
        let output = make.output().map_err(|error| format!("initdb cannot be started: {error}"))?;
        if output.status.success() {
            return Ok(());
        }
        Err(format!("initdb failed ({}):\n{}", output.status, String::from_utf8_lossy(&output.stderr)))
    }

    fn spawn(&mut self) -> Result<(), String> {
        let mut command = User::unprivileged()?.command(&self.programs.join("postgres"));
        command.args(["-D", "data", "-p", &self.port().to_string()]);
        command.args(["-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="]);
        for setting in &self.settings {
            command.args(["-c", setting]);
        }
        self.process.start(&mut command)?;
        let (ready, port) = (self.programs.join("pg_isready"), self.port().to_string());
        // It exits at once if another server has the port, so a server that answers is this one.
        let answers = |_: &Process| {
            let mut ask = Command::new(&ready);
            ask.args(["-q", "-h", "127.0.0.1", "-p", &port, "-d", "postgres"]);
            ask.status().is_ok_and(|status| status.success())
        };
        if self.process.wait_until_ready(answers) {
            return Ok(());
        }
        Err(format!("postgres does not start:\n{}", self.process.log()))
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // Stopped or not, this ends its processes and frees its shared memory.
        self.resume();
        self.crash();
    }
}
