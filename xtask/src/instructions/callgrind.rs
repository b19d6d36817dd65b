//! Counts instructions with callgrind.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cargo::{TaskError, output_of};
use crate::parallel;
use crate::servers::debian;

/// The instruction counter of valgrind.
pub(super) struct Callgrind {
    valgrind: PathBuf,
    /// The folder of its output.
    folder: PathBuf,
}

/// Returns the file that callgrind writes for the path of that name.
pub(super) fn profile_path(folder: &str, path: &str) -> PathBuf {
    Path::new(folder).join(format!("{}.callgrind", path.replace('/', "-")))
}

/// The C library chooses its copy and compare functions by the processor. The cost of the wider ones depends on the
/// position of the stack. These tunables select functions that every processor has and whose cost does not.
const TUNABLES: &str = "glibc.cpu.hwcaps=-AVX2,-AVX_Fast_Unaligned_Load,-ERMS";

impl Callgrind {
    pub(super) fn find(folder: &str) -> Result<Self, TaskError> {
        Ok(Callgrind { valgrind: debian::valgrind()?, folder: folder.into() })
    }

    /// Counts the instructions of one call of each path that the program has.
    pub(super) fn count_all(&self, program: &Path) -> Result<Vec<(String, u64)>, TaskError> {
        let listed = output_of(&mut Command::new(program))?;
        // Other load on the machine adds no instructions, so all cores count in parallel.
        parallel::map(listed.lines(), |line| self.count(program, line))
    }

    /// Counts one path, from a line of the program's list: its name, and the number of counted calls.
    fn count(&self, program: &Path, line: &str) -> Result<(String, u64), TaskError> {
        let listed = line.split_once(' ').and_then(|(name, calls)| Some((name, calls.parse::<u64>().ok()?)));
        let (name, calls) = listed.ok_or_else(|| TaskError(format!("{}: lists {line:?}", program.display())))?;
        let file = profile_path(&self.folder.to_string_lossy(), name);
        let mut command = Command::new(&self.valgrind);
        // An empty environment: variables move the stack, and some change the program's behaviour.
        command.env_clear().env("GLIBC_TUNABLES", TUNABLES);
        command.args([
            "--tool=callgrind",
            "--vgdb=no",
            "--toggle-collect=*counted_call*",
            "--zero-before=*counted_round*",
        ]);
        command.arg(format!("--callgrind-out-file={}", file.display())).arg(program).arg(name);
        output_of(&mut command)?;
        let text = fs::read_to_string(&file).map_err(|error| TaskError(format!("{}: {error}", file.display())))?;
        match read_total(&text) {
            Some(total) if total > 0 => Ok((name.to_owned(), (total + calls / 2) / calls)),
            _ => Err(TaskError(format!("{name}: callgrind has counted nothing; see {}", file.display()))),
        }
    }
}

/// Reads the total from callgrind's output.
fn read_total(text: &str) -> Option<u64> {
    let instructions = text.lines().any(|line| line == "events: Ir");
    let total = text.lines().find_map(|line| line.strip_prefix("totals: "))?;
    total.trim().parse().ok().filter(|_| instructions)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "# callgrind format\nversion: 1\ncreator: callgrind-3.19.0\npid: 1\ncmd: program path\npart: 1\n\n\
        desc: Trigger: Program termination\n\npositions: line\nevents: Ir\nsummary: 17\n\n\n\
        ob=(1) program\nfl=(1) main.rs\nfn=(1) counted_call\n7 3\ncfn=(2) total\ncalls=1 0 \n7 260531\n\ntotals: 260534\n";

    #[test]
    fn total_is_read_from_its_line_alone() {
        assert_eq!(read_total(OUTPUT), Some(260_534));
    }

    #[test]
    fn truncated_file_has_no_total() {
        assert_eq!(read_total(&OUTPUT[..OUTPUT.len() - "totals: 260534\n".len()]), None);
        assert_eq!(read_total(""), None);
    }

    #[test]
    fn other_events_have_no_total() {
        let with_caches = OUTPUT.replace("events: Ir", "events: Ir Dr Dw");
        assert_eq!(read_total(&with_caches), None);
    }

    #[test]
    fn path_has_a_file_in_the_folder() {
        assert_eq!(profile_path("target", "http/layer/denied"), Path::new("target/http-layer-denied.callgrind"));
    }
}
