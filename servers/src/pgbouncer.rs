//! PgBouncer in transaction mode.

use std::fs;
use std::net::TcpStream;
use std::path::Path;

use crate::Postgres;
use crate::process::{Process, a_few_times};
use crate::user::User;

/// A pooler that gives every transaction another connection. Dropping it kills it.
pub struct PgBouncer {
    process: Process,
}

impl PgBouncer {
    /// Starts `program` before a Postgres, and comes back when it answers.
    pub fn start(program: &Path, before: &Postgres) -> Result<Self, String> {
        a_few_times(|| {
            let (mut process, user) = (Process::new("pgbouncer")?, User::unprivileged()?);
            user.own(process.folder())?;
            let settings = process.folder().join("pgbouncer.ini");
            let text = format!(
                "[databases]\npostgres = host=127.0.0.1 port={} user=tidegate\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
                 listen_port = {}\nunix_socket_dir =\nauth_type = any\npool_mode = transaction\n\
                 default_pool_size = 4\n",
                before.port(),
                process.port,
            );
            fs::write(&settings, text).map_err(|error| format!("{}: {error}", settings.display()))?;
            process.start(user.command(program).arg(&settings))?;
            if process.comes_up(|process| TcpStream::connect(("127.0.0.1", process.port)).is_ok()) {
                return Ok(PgBouncer { process });
            }
            Err(format!("{} does not start:\n{}", program.display(), process.log()))
        })
    }

    /// The address of the database behind it.
    pub fn url(&self) -> String {
        format!("postgres://tidegate@127.0.0.1:{}/postgres", self.process.port)
    }
}
