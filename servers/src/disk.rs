//! A small disk, to be full or to be read-only.

use std::path::Path;
use std::process::{Command, Output};

/// Who a process on a small disk is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rights {
    /// It may mount the disk in another way.
    Mounting,
    /// It is not root, unless whoever asks is.
    None,
}

/// Runs a command for which `size` of a disk are mounted in a folder, in a namespace of its own, and comes back when it has
/// ended.
///
/// # Panics
///
/// When nobody here may mount anything, which takes root or namespaces of users.
pub fn on_a_small_disk(command: &Command, folder: &Path, size: &str, rights: Rights) -> Output {
    let root = Namespace { arguments: &["--mount"], then: "" };
    // Whoever is not root becomes it in a namespace of users, and then somebody else in a second one.
    let arguments = &["--mount", "--user", "--map-root-user"];
    let then = if rights == Rights::None { "unshare --user --map-user=1000 --map-group=1000" } else { "" };
    let allowed = [root, Namespace { arguments, then }].into_iter().find(|namespace| {
        let tried = namespace.command().args(["mount", "-t", "tmpfs", "tmpfs"]).arg(folder).output();
        tried.expect("unshare, of util-linux").status.success()
    });
    let namespace = allowed.expect("this test mounts a small disk: run it as root, or allow user namespaces; in a container, root needs CAP_SYS_ADMIN \
         (docker run --cap-add SYS_ADMIN --security-opt seccomp=unconfined --security-opt apparmor=unconfined)");
    let script =
        format!("mount -t tmpfs -o \"size=$0,mode=1777\" tmpfs \"$1\" && shift && exec {} \"$@\"", namespace.then);
    let mut within = namespace.command();
    within.args(["sh", "-c", &script, size]).arg(folder).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        within.env(name, value.unwrap_or_default());
    }
    within.output().expect("unshare, of util-linux")
}

struct Namespace<'a> {
    arguments: &'a [&'a str],
    /// What is run in it, before the command.
    then: &'a str,
}

impl Namespace<'_> {
    fn command(&self) -> Command {
        let mut command = Command::new("unshare");
        command.args(self.arguments);
        command
    }
}
