//! Envoy servers.

use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use crate::process::{Process, retry_start};

/// An Envoy with the config of a test. Dropping it kills it.
pub struct Envoy {
    process: Process,
}

impl Envoy {
    /// Starts `program` with the config that `config` returns for the port of its listener. Returns when it listens.
    pub fn start(program: &Path, config: impl Fn(u16) -> String) -> Result<Self, String> {
        retry_start(|| {
            let mut process = Process::new("envoy")?;
            let path = process.folder().join("envoy.yaml");
            fs::write(&path, config(process.port)).map_err(|error| format!("{}: {error}", path.display()))?;
            let mut command = Command::new(program);
            command.args(["--concurrency", "1", "--disable-hot-restart", "--log-level", "warning", "-c"]).arg(&path);
            process.start(&mut command)?;
            if process.wait_until_ready(|process| TcpStream::connect(("127.0.0.1", process.port)).is_ok()) {
                return Ok(Envoy { process });
            }
            Err(format!("{} does not start:\n{}", program.display(), process.log()))
        })
    }

    /// Returns the address of its listener.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.process.port)
    }

    /// Returns its log.
    pub fn log(&self) -> String {
        self.process.log()
    }
}
