//! A small mounted disk that a test can fill or make read-only.

use std::path::Path;
use std::process::{Command, Output};

/// The rights of a process on a small disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskRights {
    /// The process may mount the disk again with other options.
    MayMount,
    /// The process is not root, except if the caller is.
    Unprivileged,
}

/// Runs a command to its end, with a disk of this `size` mounted in a folder, in a namespace of its own.
///
/// # Panics
///
/// If the system permits no mounts: they need root or user namespaces.
pub fn run_on_small_disk(command: &Command, folder: &Path, size: &str, rights: DiskRights) -> Output {
    let root = Namespace { arguments: &["--mount"], prelude: "" };
    // A process without root becomes root in a user namespace, and a normal user again in a second one.
    let arguments = &["--mount", "--user", "--map-root-user"];
    let prelude =
        if rights == DiskRights::Unprivileged { "unshare --user --map-user=1000 --map-group=1000" } else { "" };
    let allowed = [root, Namespace { arguments, prelude }].into_iter().find(|namespace| {
        let tried = namespace.command().args(["mount", "-t", "tmpfs", "tmpfs"]).arg(folder).output();
        tried.expect("unshare, of util-linux").status.success()
    });
    let namespace = allowed.expect("this test mounts a small disk: run it as root, or allow user namespaces; in a container, root needs CAP_SYS_ADMIN \
         (docker run --cap-add SYS_ADMIN --security-opt seccomp=unconfined --security-opt apparmor=unconfined)");
    let script =
        format!("mount -t tmpfs -o \"size=$0,mode=1777\" tmpfs \"$1\" && shift && exec {} \"$@\"", namespace.prelude);
    let mut within = namespace.command();
    within.args(["sh", "-c", &script, size]).arg(folder).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        within.env(name, value.unwrap_or_default());
    }
    within.output().expect("unshare, of util-linux")
}

struct Namespace<'a> {
    arguments: &'a [&'a str],
    /// The prefix of the command, or empty.
    prelude: &'a str,
}

impl Namespace<'_> {
    fn command(&self) -> Command {
        let mut command = Command::new("unshare");
        command.args(self.arguments);
        command
    }
}
