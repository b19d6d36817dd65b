//! Prometheus servers.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;

use crate::process::{Process, retry_start};

/// One Prometheus with rules of the test's, which scrapes and evaluates every second. Dropping it kills it.
pub struct Prometheus {
    process: Process,
}

impl Prometheus {
    /// Starts `program`, and comes back when it listens. It scrapes `/metrics` of the targets.
    pub fn start(program: &Path, rules: &str, targets: &[SocketAddr]) -> Result<Self, String> {
        let targets: Vec<_> = targets.iter().map(|target| format!("'{target}'")).collect();
        let config = format!(
            "global: {{scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}}\n\
             rule_files: [rules.yaml]\n\
             scrape_configs:\n  - job_name: tidegate\n    static_configs: [{{targets: [{}]}}]\n",
            targets.join(", ")
        );
        retry_start(|| {
            let mut process = Process::new("prometheus")?;
            for (name, text) in [("prometheus.yaml", &*config), ("rules.yaml", rules)] {
                let path = process.folder().join(name);
                fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
            }
            let mut command = Command::new(program);
            let listen = format!("--web.listen-address=127.0.0.1:{}", process.port);
            command.args(["--config.file=prometheus.yaml", "--storage.tsdb.path=data", "--log.level=warn", &listen]);
            process.start(&mut command)?;
            if process.wait_until_ready(|process| TcpStream::connect(("127.0.0.1", process.port)).is_ok()) {
                return Ok(Prometheus { process });
            }
            Err(format!("{} does not start:\n{}", program.display(), process.log()))
        })
    }

    /// The address of its API.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.process.port)
    }

    /// Its log.
    pub fn log(&self) -> String {
        self.process.log()
    }
}
