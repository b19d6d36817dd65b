//! A server's process and its folder.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::folder::Folder;
use crate::ports::free_port;
use crate::signal::signal;
use crate::wait_until;

/// A process on a port and with a folder of its own. Dropping it kills the process and removes the folder.
pub(crate) struct Process {
    pub(crate) port: u16,
    folder: Folder,
    child: Option<Child>,
}

impl Process {
    /// A port and an empty folder, and no process yet.
    pub(crate) fn new(what: &str) -> Result<Self, String> {
        let port = free_port()?;
        Ok(Process { port, folder: Folder::new(what)?, child: None })
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Starts the process, in its folder, its output going to a log there.
    pub(crate) fn start(&mut self, command: &mut Command) -> Result<(), String> {
        let failed = |error| format!("{}: {error}", self.folder().display());
        let log = File::options().create(true).append(true).open(self.folder().join("log")).map_err(failed)?;
        let both = log.try_clone().map_err(failed)?;
        command.current_dir(self.folder()).stdin(Stdio::null()).stdout(log).stderr(both);
        let child = command.spawn();
        self.child = Some(child.map_err(|error| format!("{:?} cannot be started: {error}", command.get_program()))?);
        Ok(())
    }

    /// Whether `answers` comes to hold while the process runs.
    pub(crate) fn comes_up(&mut self, mut answers: impl FnMut(&Self) -> bool) -> bool {
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
            // A process that has already ended is none.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Sends it a signal and waits until it has ended.
    pub(crate) fn end(&mut self, signal: &str) {
        self.signal(signal);
        if let Some(mut child) = self.child.take() {
            let _ = child.wait();
        }
    }

    /// Sends it a signal, if it runs.
    pub(crate) fn signal(&self, name: &str) {
        if let Some(child) = &self.child {
            // One that has just ended is none to complain about.
            let _ = signal([(name, child.id())]);
        }
    }

    /// Sends a signal to the processes it has started.
    pub(crate) fn signal_children(&self, name: &str) {
        let Some(own) = self.child.as_ref().map(|child| child.id().to_string()) else { return };
        let processes = fs::read_dir("/proc").expect("/proc").flatten();
        for id in processes.filter_map(|process| process.file_name().to_str()?.parse::<u32>().ok()) {
            // The parent is the second field after the name, which is in parentheses and may be anything.
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
        // First the process, and then what it writes into.
        self.kill();
    }
}

/// Tries a start a few times: between looking for a free port and taking it, somebody else can take it.
pub(crate) fn a_few_times<T>(start: impl Fn() -> Result<T, String>) -> Result<T, String> {
    let mut last = String::new();
    for _ in 0..5 {
        match start() {
            Ok(server) => return Ok(server),
            Err(error) => last = error,
        }
    }
    Err(last)
}
