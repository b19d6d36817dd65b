//! What the compiler says of itself.

use std::process::Command;

use crate::cargo::{self, Failed};

/// The target this machine builds for.
pub(crate) fn host() -> Result<String, Failed> {
    let said = said()?;
    let host = said.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| Failed(format!("rustc -vV names no host: {said}")))
}

/// The version, as in `1.95.0 (59807616e 2026-04-14)`.
pub(crate) fn version() -> Result<String, Failed> {
    let said = said()?;
    let version = said.lines().find_map(|line| line.strip_prefix("rustc "));
    version.map(str::to_owned).ok_or_else(|| Failed(format!("rustc -vV names no version: {said}")))
}

fn said() -> Result<String, Failed> {
    cargo::said(Command::new("rustc").arg("-vV"))
}
