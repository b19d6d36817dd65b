//! The fuzz targets, in `fuzz/`.

use std::path::Path;

use crate::cargo::{TaskError, cargo, host_target, step};
use crate::{packages, parallel};

/// Returns the names of the targets.
pub(crate) fn targets() -> Result<Vec<String>, TaskError> {
    packages::program_names("fuzz/src/bin")
}

/// Replays the corpus of each target, and mutations of it for a few seconds, in the same order in every run. The
/// programs must be built.
pub(crate) fn replay() -> Result<(), TaskError> {
    let replay = |target: String| step(&format!("fuzz {target}"), tidegate_servers::program(&target).arg("5"));
    parallel::map(targets()?.into_iter(), replay).map(drop)
}

/// Runs libFuzzer, which follows code coverage, for a minute on each target. Inputs with new coverage are added to the
/// corpus. The instrumentation is part of the stable compiler, too.
pub(crate) fn search() -> Result<(), TaskError> {
    // The instrumentation must not go into build scripts and macros. A target separates the two.
    let host = host_target()?;
    let folder = Path::new("target/fuzz");
    let mut build = cargo(["build", "--release", "--package", "tidegate-fuzz", "--bins", "--target", &host]);
    build.arg("--target-dir").arg(folder);
    step("fuzz: build with instruments", build.env("RUSTFLAGS", INSTRUMENTS))?;
    for target in targets()? {
        let program = folder.join(&host).join("release").join(&target);
        let artifacts = format!("fuzz/artifacts/{target}/");
        std::fs::create_dir_all(&artifacts).map_err(|error| TaskError(format!("{artifacts}: {error}")))?;
        let mut search = std::process::Command::new(program);
        search.args(["-max_total_time=60", "-max_len=512", "-print_final_stats=1"]);
        search.arg(format!("-artifact_prefix={artifacts}")).arg(format!("fuzz/corpus/{target}"));
        step(&format!("fuzz {target}, a minute"), &mut search)?;
    }
    Ok(())
}

const INSTRUMENTS: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Cdebug-assertions -Ccodegen-units=1";
