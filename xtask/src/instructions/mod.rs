//! `cargo xtask instructions`: what one call of each hot path costs, in instructions, beside what it cost before.
//!
//! An instruction is one on a busy machine, too, where a time is not a time. The paths are in `benches/instructions`.

mod callgrind;
mod compare;
mod counts;

use std::fs;
use std::path::Path;

use crate::cargo::{Failed, cargo, step};
use callgrind::Callgrind;
use compare::{Comparison, Tolerance};
use counts::{Counts, Tools};

/// What each path cost before.
const KEPT: &str = "benches/instructions/counts.txt";
/// A folder of its own: other features would rebuild everything each time. What callgrind has seen is there as well.
const FOLDER: &str = "target/instructions";

pub(crate) fn run(arguments: &[String]) -> Result<(), Failed> {
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] => check(),
        ["--bless"] => bless(),
        others => Err(Failed(format!("found {others:?}, expected nothing or --bless"))),
    }
}

/// Fails when a path costs more than it may.
pub(crate) fn check() -> Result<(), Failed> {
    let kept: Counts =
        read()?.ok_or_else(|| Failed(format!("there is no {KEPT}: cargo xtask instructions --bless")))?;
    let now = count()?;
    let tolerance = Tolerance::between(&kept.tools, &now.tools);
    if let Some(why) = tolerance.why(&kept.tools, &now.tools) {
        println!("{why}");
    }
    let comparison = Comparison::new(&kept.paths, &now.paths, tolerance);
    print!("{comparison}");
    comparison.verdict()?;
    println!("== instructions: ok");
    Ok(())
}

/// Keeps what the paths cost now.
fn bless() -> Result<(), Failed> {
    let tools = Tools::here()?;
    if let Some(kept) = read()?
        && kept.tools.target != tools.target
    {
        // Whoever counts elsewhere would compare with nothing from then on, and not notice.
        let Tools { target, .. } = kept.tools;
        return Err(Failed(format!("{KEPT} is of {target}, and this is {}: bless it there", tools.target)));
    }
    let now = count()?;
    fs::write(KEPT, now.to_string()).map_err(|error| Failed(format!("{KEPT}: {error}")))?;
    println!("== instructions: {KEPT} is written. Look at what has changed, and say why when it is committed.");
    Ok(())
}

fn read() -> Result<Option<Counts>, Failed> {
    if !Path::new(KEPT).exists() {
        return Ok(None);
    }
    let text = fs::read_to_string(KEPT).map_err(|error| Failed(format!("{KEPT}: {error}")))?;
    text.parse().map(Some).map_err(|error| Failed(format!("{KEPT}: {error}")))
}

fn count() -> Result<Counts, Failed> {
    let callgrind = Callgrind::find(FOLDER)?;
    let mut build = cargo(["build", "--profile", "instructions", "--package", "tidegate-instructions"]);
    build.args(["--target-dir", FOLDER]);
    // Whatever processor somebody builds for otherwise: everybody counts the same program.
    build.env("RUSTFLAGS", "").env_remove("CARGO_ENCODED_RUSTFLAGS");
    step("instructions: build", &mut build)?;
    println!("\n== instructions");
    let program = Path::new(FOLDER).join("instructions/tidegate-instructions");
    Ok(Counts { tools: Tools::here()?, paths: callgrind.count_all(&program)? })
}
