//! PgBouncer in transaction mode.

use std::fs;
use std::net::TcpStream;
use std::path::Path;

use crate::Postgres;
use crate::process::{Process, retry_start};
use crate::user::User;

/// A pooler that gives every transaction another connection. Dropping it kills it.
pub struct PgBouncer {
    process: Process,
}

impl PgBouncer {
    /// Starts `program` in front of a Postgres, and returns when it answers.
    pub fn start(program: &Path, postgres: &Postgres) -> Result<Self, String> {
        retry_start(|| {
            let (mut process, user) = (Process::new("pgbouncer")?, User::unprivileged()?);
            user.chown(process.folder())?;
            let settings = process.folder().join("pgbouncer.ini");
            let text = format!(
                "[databases]\npostgres = host=127.0.0.1 port={} user=tidegate\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
                 listen_port = {}\nunix_socket_dir =\nauth_type = any\npool_mode = transaction\n\
                 default_pool_size = 4\n",
                postgres.port(),
                process.port,
            );
            fs::write(&settings, text).map_err(|error| format!("{}: {error}", settings.display()))?;
            process.start(user.command(program).arg(&settings))?;
            if process.wait_until_ready(|process| TcpStream::connect(("127.0.0.1", process.port)).is_ok()) {
                return Ok(PgBouncer { process });
            }
            Err(format!("{} does not start:\n{}", program.display(), process.log()))
        })
    }

    /// Returns the address of the database behind it.
    pub fn url(&self) -> String {
        format!("postgres://tidegate@127.0.0.1:{}/postgres", self.process.port)
    }
}
