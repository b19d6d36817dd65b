//! Counting instructions with callgrind.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cargo::{TaskError, output_of};
use crate::parallel;
use crate::servers::debian;

/// valgrind's counting of instructions.
pub(super) struct Callgrind {
    valgrind: PathBuf,
    /// The folder of its output.
    folder: PathBuf,
}

/// The file that callgrind writes for the path of that name.
pub(super) fn profile_path(folder: &str, path: &str) -> PathBuf {
    Path::new(folder).join(format!("{}.callgrind", path.replace('/', "-")))
}

/// The C library picks how it copies and compares by the processor, and the wider it copies the more it matters where the stack
/// begins. This is what every processor has, and costs the same wherever that is.
const TUNABLES: &str = "glibc.cpu.hwcaps=-AVX2,-AVX_Fast_Unaligned_Load,-ERMS";

impl Callgrind {
    pub(super) fn find(folder: &str) -> Result<Self, TaskError> {
        Ok(Callgrind { valgrind: debian::valgrind()?, folder: folder.into() })
    }

    /// The instructions of one call of each path that the program has.
    pub(super) fn count_all(&self, program: &Path) -> Result<Vec<(String, u64)>, TaskError> {
        let listed = output_of(&mut Command::new(program))?;
        // What else a machine does is no instruction of theirs: as many at once as it has cores.
        parallel::map(listed.lines(), |line| self.count(program, line))
    }

    /// A line of the program's list: the path's name, and how many calls of it are counted.
    fn count(&self, program: &Path, line: &str) -> Result<(String, u64), TaskError> {
        let listed = line.split_once(' ').and_then(|(name, calls)| Some((name, calls.parse::<u64>().ok()?)));
        let (name, calls) = listed.ok_or_else(|| TaskError(format!("{}: lists {line:?}", program.display())))?;
        let file = profile_path(&self.folder.to_string_lossy(), name);
        let mut command = Command::new(&self.valgrind);
        // Nothing of the caller's: variables move the stack, and some change what the program does.
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

/// Reads the total of callgrind's output.
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
