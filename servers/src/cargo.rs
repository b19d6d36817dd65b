//! Cargo commands, and the programs that cargo has built.

use std::process::Command;

/// Returns the cargo that runs this program, with the environment of a shell. `cargo run` and `cargo test` pass
/// variables of the package to a program. Some build scripts run again when these change, and with them everything that
/// depends on them.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let package = |name: &str| ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|of| name.starts_with(of));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(package)) {
        command.env_remove(name);
    }
    command
}

/// Returns a command that builds all examples and these binaries, with the features of the tests. A build of a single
/// package would have other features, and would compile its dependencies again.
pub fn build_programs(binaries: &[String]) -> Command {
    let mut command = cargo();
    command.args(["build", "--workspace", "--all-features", "--examples"]);
    if cfg!(not(debug_assertions)) {
        command.arg("--release");
    }
    for binary in binaries {
        command.args(["--bin", binary]);
    }
    command
}

/// Returns a program of that build: a binary, or an example as in `examples/chat`.
///
/// # Panics
///
/// If it was not built.
pub fn program(path: &str) -> Command {
    let own = std::env::current_exe().expect("a program");
    // Cargo puts tests into a folder beside the examples.
    let program = own.ancestors().skip(1).map(|folder| folder.join(path)).find(|program| program.is_file());
    Command::new(program.unwrap_or_else(|| panic!("{path} is not built")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn package_variables_are_removed() {
        let command = cargo();
        let removed: Vec<_> = command.get_envs().filter(|(_, value)| value.is_none()).map(|(name, _)| name).collect();
        for name in ["CARGO_MANIFEST_DIR", "CARGO_PKG_NAME", "CARGO_PKG_VERSION_MAJOR"] {
            assert!(std::env::var_os(name).is_some() && removed.contains(&name.as_ref()), "{name}");
        }
    }
}
