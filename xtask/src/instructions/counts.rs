//! The file of instruction counts: one count per hot path, and the tool versions behind them.

use std::fmt;
use std::process::Command;
use std::str::FromStr;

use crate::cargo::{TaskError, host_target, rustc_version};

/// The instructions of one call of each path, as stored in a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct InstructionCounts {
    pub(super) tools: ToolVersions,
    pub(super) paths: Vec<(String, u64)>,
}

/// The versions of the tools that a count depends on, in addition to the code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ToolVersions {
    pub(super) target: String,
    pub(super) rustc: String,
    /// The C library, whose allocator and copy functions are in the counts.
    pub(super) libc: String,
}

impl ToolVersions {
    /// Returns the versions of this machine.
    pub(super) fn current() -> Result<Self, TaskError> {
        let libc =
            Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok().filter(|output| output.status.success());
        let libc =
            libc.map_or("unknown".to_owned(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
        Ok(ToolVersions { target: host_target()?, rustc: rustc_version()?, libc })
    }
}

impl fmt::Display for ToolVersions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rustc {} and {}", self.rustc, self.libc)
    }
}

const FILE_HEADER: &str = "\
# Instructions of one call of each hot path: what `cargo xtask instructions` compares with.
# Written by `cargo xtask instructions --bless`.
";

/// Formats the file.
impl fmt::Display for InstructionCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ToolVersions { target, rustc, libc } = &self.tools;
        writeln!(f, "{FILE_HEADER}target: {target}\nrustc: {rustc}\nlibc: {libc}\n")?;
        self.paths.iter().try_for_each(|(name, count)| writeln!(f, "{name:<32} {count:>6}"))
    }
}

impl FromStr for InstructionCounts {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let [mut target, mut rustc, mut libc] = [None, None, None];
        let mut paths: Vec<(String, u64)> = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let error = |expected: &str| format!("line {number}: found {line:?}, expected {expected}");
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if let Some((name, value)) = line.split_once(": ") {
                let field = match name {
                    "target" => &mut target,
                    "rustc" => &mut rustc,
                    "libc" => &mut libc,
                    _ => return Err(error("target, rustc or libc")),
                };
                *field = Some(value.to_owned());
                continue;
            }
            let path = line.split_once(' ').and_then(|(name, count)| Some((name, count.trim().parse().ok()?)));
            let (name, count) = path.filter(|(_, count)| *count > 0).ok_or_else(|| error("a path and its count"))?;
            if paths.iter().any(|(known, _)| known == name) {
                return Err(error("each path once"));
            }
            paths.push((name.to_owned(), count));
        }
        let required = |value: Option<String>, name: &str| value.ok_or_else(|| format!("it does not say its {name}"));
        let tools = ToolVersions {
            target: required(target, "target")?,
            rustc: required(rustc, "rustc")?,
            libc: required(libc, "libc")?,
        };
        Ok(InstructionCounts { tools, paths })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts() -> InstructionCounts {
        let [target, rustc, libc] = ["x86_64-unknown-linux-gnu", "1.95.0 (59807616e 2026-04-14)", "glibc 2.36"];
        let tools = ToolVersions { target: target.into(), rustc: rustc.into(), libc: libc.into() };
        InstructionCounts {
            tools,
            paths: vec![("memory/denied".into(), 217), ("http/layer/allowed-silent".into(), 123_456)],
        }
    }

    #[test]
    fn written_counts_are_read_back() {
        assert_eq!(counts().to_string().parse(), Ok(counts()));
    }

    #[test]
    fn malformed_line_is_refused_by_its_number() {
        for wrong in ["memory/allowed", "memory/allowed many", "memory/allowed 0", "memory/denied 217", "cpu: fast"] {
            let error = format!("{}{wrong}\n", counts()).parse::<InstructionCounts>().unwrap_err();
            assert!(error.starts_with(&format!("line 9: found {wrong:?}, expected ")), "{error}");
        }
    }

    #[test]
    fn file_without_its_tools_is_refused() {
        for name in ["target", "rustc", "libc"] {
            let text: Vec<String> = counts().to_string().lines().map(str::to_owned).collect();
            let text: Vec<&str> = text.iter().map(String::as_str).filter(|line| !line.starts_with(name)).collect();
            assert_eq!(text.join("\n").parse::<InstructionCounts>(), Err(format!("it does not say its {name}")));
        }
    }
}
