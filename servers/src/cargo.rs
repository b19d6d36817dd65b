//! Cargo commands, and the programs that cargo has built.

use std::process::Command;

/// The cargo that runs this program, as from a shell: `cargo run` and `cargo test` tell a program which package it is of, and there
/// are build scripts that want to be run again when that has changed, with all that depends on them built again.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let package = |name: &str| ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|of| name.starts_with(of));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(package)) {
        command.env_remove(name);
    }
    command
}

/// Builds all examples, and these binaries too, as the tests are built: of a package alone, all that they are made of would be
/// built once more, with other features.
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

/// A program that was built so: a binary, or an example as in `examples/chat`.
///
/// # Panics
///
/// When it was not.
pub fn program(path: &str) -> Command {
    let own = std::env::current_exe().expect("a program");
    // Tests lie in a folder beside the examples.
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
