//! `Program`: a running `tidegate serve` on free ports.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use tidegate_servers::signal;

/// The time that a test waits for a log line or for the exit.
const LOG_TIMEOUT: Duration = Duration::from_secs(60);

/// A running `tidegate serve`. Dropping it kills it.
pub(crate) struct Program {
    child: Child,
    /// Its log lines from the start of serving to its end.
    log: Mutex<Receiver<String>>,
    pub(crate) http: Option<SocketAddr>,
    pub(crate) grpc: Option<SocketAddr>,
    pub(crate) resp: Option<SocketAddr>,
}

impl Program {
    /// Starts the program, and returns once it serves. Without ports in the arguments, it uses free ones.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Program::start_with_env(arguments, &[])
    }

    /// Starts it with variables in its environment.
    pub(crate) fn start_with_env(arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command.args(["serve", "--log", "json"]).args(arguments);
        for port in ["--http", "--grpc", "--resp"] {
            if !arguments.contains(&port) {
                command.args([port, "127.0.0.1:0"]);
            }
        }
        command
            .env_remove("TIDEGATE_TOKEN")
            .env_remove("TIDEGATE_STORE")
            .env_remove("RUST_LOG")
            .envs(variables.iter().copied());
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the program starts");
        let lines = BufReader::new(child.stderr.take().expect("piped")).lines();
        // The pipe must be read, or the program would block.
        let (sender, log) = channel();
        std::thread::spawn(move || lines.map_while(Result::ok).all(|line| sender.send(line).is_ok()));
        let serving = read_serving_line(&log).unwrap_or_else(|said| {
            let _ = child.kill();
            panic!("{arguments:?}: it does not serve:\n{said}")
        });
        let address = |port: &str| serving[port].as_str().and_then(|address| address.parse().ok());
        Program { child, log: Mutex::new(log), http: address("http"), grpc: address("grpc"), resp: address("resp") }
    }

    /// Returns the id of its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal, such as `TERM`.
    pub(crate) fn signal(&self, name: &str) {
        self.signals(&[name]);
    }

    /// Sends these signals as close together as possible.
    pub(crate) fn signals(&self, names: &[&str]) {
        assert!(signal(names.iter().map(|name| (*name, self.id()))), "it is gone");
    }

    /// Waits until it logs a message with this beginning, and returns the message.
    pub(crate) fn wait_for_log(&self, beginning: &str) -> String {
        self.wait_for_event(beginning)["message"].as_str().expect("a text").to_owned()
    }

    /// Waits until it logs a message with this beginning, and returns all fields of the line.
    pub(crate) fn wait_for_event(&self, beginning: &str) -> serde_json::Value {
        loop {
            let line = self.log.lock().expect("nobody has failed").recv_timeout(LOG_TIMEOUT);
            let line = line.unwrap_or_else(|_| panic!("it never logs {beginning:?}"));
            if let Ok(line) = serde_json::from_str::<serde_json::Value>(&line)
                && line["message"].as_str().is_some_and(|message| message.starts_with(beginning))
            {
                return line;
            }
        }
    }

    /// Waits for its end. Returns the status and the rest of the log.
    pub(crate) fn wait_for_exit(mut self) -> (ExitStatus, Vec<String>) {
        let (lines, mut log) = (self.log.get_mut().expect("nobody has failed"), Vec::new());
        loop {
            match lines.recv_timeout(LOG_TIMEOUT) {
                Ok(line) => log.push(line),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("it does not end: {log:?}"),
            }
        }
        (self.child.wait().expect("a child"), log)
    }

    /// Ends it as an operator would.
    pub(crate) fn stop(self) -> (ExitStatus, Vec<String>) {
        self.signal("TERM");
        self.wait_for_exit()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // A process that has ended cannot be killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the log line of a server that is ready; the error has all lines of one that ends or takes too long.
fn read_serving_line(lines: &Receiver<String>) -> Result<serde_json::Value, String> {
    let mut said = String::new();
    while let Ok(line) = lines.recv_timeout(LOG_TIMEOUT) {
        match serde_json::from_str::<serde_json::Value>(&line) {
            Ok(line) if line["message"] == "serving" => return Ok(line),
            _ => said += &(line + "\n"),
        }
    }
    Err(said)
}
