//! A program that listens on one port.

use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use crate::process::{Process, retry_start};

/// A program that listens on one port. Dropping it kills it.
pub struct Program(Process);

impl Program {
    /// Starts the command that `command` returns for a port and a folder, in that folder. Returns when it listens on
    /// the port.
    pub fn start(name: &str, command: impl Fn(u16, &Path) -> Command) -> Result<Self, String> {
        retry_start(|| {
            let mut process = Process::new(name)?;
            let mut command = command(process.port, process.folder());
            process.start(&mut command)?;
            if process.wait_until_ready(|process| TcpStream::connect(("127.0.0.1", process.port)).is_ok()) {
                return Ok(Program(process));
            }
            Err(format!("{:?} does not start:\n{}", command.get_program(), process.log()))
        })
    }

    /// Returns its port.
    pub fn port(&self) -> u16 {
        self.0.port
    }

    /// Returns the id of its process.
    pub fn id(&self) -> u32 {
        self.0.id()
    }
}
