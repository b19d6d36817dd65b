//! `cargo xtask instructions`: counts the instructions of each hot path and compares them with the recorded counts.
//!
//! A busy machine does not change the number of instructions, while times vary. The paths are in
//! `benches/instructions`.

mod callgrind;
mod compare;
mod counts;

use std::fs;
use std::path::Path;

use crate::cargo::{TaskError, cargo, step};
use callgrind::Callgrind;
use compare::{Comparison, Tolerance};
use counts::{InstructionCounts, ToolVersions};

/// The file with the recorded costs of each path.
const COUNTS_FILE: &str = "benches/instructions/counts.txt";
/// A folder of its own, because other features would rebuild everything each time. It has the profiles of callgrind,
/// too.
const TARGET_FOLDER: &str = "target/instructions";

pub(crate) fn run(arguments: &[String]) -> Result<(), TaskError> {
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] => check(),
        ["--bless"] => bless(),
        others => Err(TaskError(format!("found {others:?}, expected nothing or --bless"))),
    }
}

/// Counts the instructions of every path, and fails if one costs more than it may.
pub(crate) fn check() -> Result<(), TaskError> {
    let before: InstructionCounts = read_counts()?
        .ok_or_else(|| TaskError(format!("there is no {COUNTS_FILE}: cargo xtask instructions --bless")))?;
    let now = count_paths()?;
    let tolerance = Tolerance::between(&before.tools, &now.tools);
    if let Some(explanation) = tolerance.explanation(&before.tools, &now.tools) {
        println!("{explanation}");
    }
    let comparison = Comparison::new(&before.paths, &now.paths, tolerance);
    print!("{comparison}");
    comparison.check()?;
    println!("== instructions: ok");
    Ok(())
}

/// Writes the current costs of the paths to the file.
fn bless() -> Result<(), TaskError> {
    let tools = ToolVersions::current()?;
    if let Some(kept) = read_counts()?
        && kept.tools.target != tools.target
    {
        // Otherwise, machines of the old target would silently compare with nothing from then on.
        let ToolVersions { target, .. } = kept.tools;
        return Err(TaskError(format!("{COUNTS_FILE} is of {target}, and this is {}: bless it there", tools.target)));
    }
    let now = count_paths()?;
    fs::write(COUNTS_FILE, now.to_string()).map_err(|error| TaskError(format!("{COUNTS_FILE}: {error}")))?;
    println!("== instructions: {COUNTS_FILE} is written. Look at what has changed, and say why when it is committed.");
    Ok(())
}

fn read_counts() -> Result<Option<InstructionCounts>, TaskError> {
    if !Path::new(COUNTS_FILE).exists() {
        return Ok(None);
    }
    let text = fs::read_to_string(COUNTS_FILE).map_err(|error| TaskError(format!("{COUNTS_FILE}: {error}")))?;
    text.parse().map(Some).map_err(|error| TaskError(format!("{COUNTS_FILE}: {error}")))
}

fn count_paths() -> Result<InstructionCounts, TaskError> {
    let callgrind = Callgrind::find(TARGET_FOLDER)?;
    let mut build = cargo(["build", "--profile", "instructions", "--package", "tidegate-instructions"]);
    build.args(["--target-dir", TARGET_FOLDER]);
    // Without flags for one processor, so that every machine counts the same program.
    build.env("RUSTFLAGS", "").env_remove("CARGO_ENCODED_RUSTFLAGS");
    step("instructions: build", &mut build)?;
    println!("\n== instructions");
    let program = Path::new(TARGET_FOLDER).join("instructions/tidegate-instructions");
    Ok(InstructionCounts { tools: ToolVersions::current()?, paths: callgrind.count_all(&program)? })
}
