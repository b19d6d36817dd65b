//! An unprivileged user, for servers that refuse to run as root.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// The user of a server: the current one, or an unprivileged one if that is root.
pub(crate) struct User(Option<(u32, u32)>);

impl User {
    pub(crate) fn unprivileged() -> Result<Self, String> {
        // A process is owned by the user that runs it.
        let root = fs::metadata("/proc/self").map(|own| own.uid() == 0).unwrap_or(false);
        if !root {
            return Ok(User(None));
        }
        let users = fs::read_to_string("/etc/passwd").map_err(|error| format!("/etc/passwd: {error}"))?;
        let ids = ["postgres", "nobody"].into_iter().find_map(|name| {
            let mut fields = users.lines().find(|line| line.split(':').next() == Some(name))?.split(':').skip(2);
            Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
        });
        ids.map(|ids| User(Some(ids))).ok_or_else(|| "there is no user `postgres` or `nobody` to run it as".to_owned())
    }

    /// Returns a command that runs as this user.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        if let Some((user, group)) = self.0 {
            command.uid(user).gid(group);
        }
        command
    }

    /// Gives this user the ownership of a file or folder.
    pub(crate) fn chown(&self, path: &Path) -> Result<(), String> {
        let Some((user, group)) = self.0 else { return Ok(()) };
        std::os::unix::fs::chown(path, Some(user), Some(group)).map_err(|error| format!("{}: {error}", path.display()))
    }
}
