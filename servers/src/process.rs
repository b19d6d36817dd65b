//! A server's process, its port and its folder; signals to processes, and waiting for them.

use std::fs::{self, File};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::temp_folder::TempFolder;

/// A process on a port and with a folder of its own. Dropping it kills the process and removes the folder.
pub(crate) struct Process {
    pub(crate) port: u16,
    folder: TempFolder,
    child: Option<Child>,
}

impl Process {
    /// Reserves a port and an empty folder, without a process yet.
    pub(crate) fn new(what: &str) -> Result<Self, String> {
        let port = free_port()?;
        Ok(Process { port, folder: TempFolder::new(what)?, child: None })
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Starts the process in its folder. Its output goes to a log there.
    pub(crate) fn start(&mut self, command: &mut Command) -> Result<(), String> {
        let failed = |error| format!("{}: {error}", self.folder().display());
        let log = File::options().create(true).append(true).open(self.folder().join("log")).map_err(failed)?;
        let both = log.try_clone().map_err(failed)?;
        command.current_dir(self.folder()).stdin(Stdio::null()).stdout(log).stderr(both);
        let child = command.spawn();
        self.child = Some(child.map_err(|error| format!("{:?} cannot be started: {error}", command.get_program()))?);
        Ok(())
    }

    /// Waits until `answers` returns true. Returns false if the process ends or the time is over.
    pub(crate) fn wait_until_ready(&mut self, mut answers: impl FnMut(&Self) -> bool) -> bool {
        let mut ended = false;
        wait_until(|| {
            ended = !self.child.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)));
            ended || answers(self)
        }) && !ended
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.as_ref().map_or(0, Child::id)
    }

    /// Kills it with SIGKILL.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // The process may have already ended.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Sends it a signal and waits until it has ended.
    pub(crate) fn signal_and_wait(&mut self, signal: &str) {
        self.signal(signal);
        if let Some(mut child) = self.child.take() {
            let _ = child.wait();
        }
    }

    /// Sends it a signal, if it runs.
    pub(crate) fn signal(&self, name: &str) {
        if let Some(child) = &self.child {
            // The process may have just ended.
            let _ = signal([(name, child.id())]);
        }
    }

    /// Sends a signal to its child processes.
    pub(crate) fn signal_children(&self, name: &str) {
        let Some(own) = self.child.as_ref().map(|child| child.id().to_string()) else { return };
        let processes = fs::read_dir("/proc").expect("/proc").flatten();
        for id in processes.filter_map(|process| process.file_name().to_str()?.parse::<u32>().ok()) {
            // The parent is the second field after the name, which is in parentheses and may contain anything.
            let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
            if stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1)) == Some(&own) {
                let _ = signal([(name, id)]);
            }
        }
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder().join("log")).unwrap_or_default()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // First the process, and then the folder that it writes into.
        self.kill();
    }
}

/// Retries a start a few times: another process can take a free port before the server does.
pub(crate) fn retry_start<T>(start: impl Fn() -> Result<T, String>) -> Result<T, String> {
    let mut last = String::new();
    for _ in 0..5 {
        match start() {
            Ok(server) => return Ok(server),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Returns a free port. The port 10,000 above it is free, too: the nodes of a Redis cluster use it between each other.
///
/// Both are below the ports of outgoing connections. A client that connects to a stopped server must not get its port.
pub fn free_port() -> Result<u16, String> {
    let free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    let random = || 12_000 + (RandomState::new().build_hasher().finish() % 10_000) as u16;
    let mut ports = std::iter::repeat_with(random).take(1_000);
    ports.find(|&port| free(port) && free(port + 10_000)).ok_or_else(|| "no port is free".to_owned())
}

/// Sends signals to processes one after the other, each as a name and a process id. Returns whether there was at least
/// one, and all processes existed.
///
/// It uses the `kill` of the shell, because not every machine has a program of that name.
pub fn signal<'a>(signals: impl IntoIterator<Item = (&'a str, u32)>) -> bool {
    let sends: Vec<_> = signals.into_iter().map(|(name, id)| format!("kill -{name} {id} || missing=1")).collect();
    let script = format!("missing=; {}; test -z \"$missing\"", sends.join("; "));
    let sent = Command::new("sh").args(["-c", &script]).stderr(Stdio::null()).status();
    !sends.is_empty() && sent.expect("a shell").success()
}

/// Polls `done` until it returns true, for a little more than twenty seconds. Returns whether it did.
#[allow(clippy::disallowed_methods)] // another process needs real time
pub fn wait_until(mut done: impl FnMut() -> bool) -> bool {
    (0..1_000).any(|_| {
        let done = done();
        if !done {
            std::thread::sleep(Duration::from_millis(20));
        }
        done
    })
}
