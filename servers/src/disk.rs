//! A small mounted disk that a test can fill or make read-only.

use std::path::Path;
use std::process::{Command, Output};

/// The rights of a process on a small disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskRights {
    /// It may mount the disk again with other options.
    MayMount,
    /// It is not root, unless the caller is.
    Unprivileged,
}

/// Runs a command for which `size` of a disk are mounted in a folder, in a namespace of its own, and returns when it has
/// ended.
///
/// # Panics
///
/// If nothing may be mounted here: it takes root or user namespaces.
pub fn run_on_small_disk(command: &Command, folder: &Path, size: &str, rights: DiskRights) -> Output {
    let root = Namespace { arguments: &["--mount"], prelude: "" };
    // A process without root becomes root in a user namespace, and an ordinary user again in a second one.
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
    /// A command prefix for the command, empty for none.
    prelude: &'a str,
}

impl Namespace<'_> {
    fn command(&self) -> Command {
        let mut command = Command::new("unshare");
        command.args(self.arguments);
        command
    }
}
