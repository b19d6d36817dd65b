//! `cargo xtask test`: every check of the repository.

use std::path::Path;
use std::process::Stdio;

use crate::cargo::{TaskError, cargo, output_of, step};
use crate::servers::{Servers, debian};
use crate::{adapters, fuzz, instructions, links, open_files, packages, prose, wasm};

pub(crate) fn run() -> Result<(), TaskError> {
    step("format", &mut cargo(["fmt", "--all", "--check"]))?;
    prose::check()?;
    links::check()?;
    // Missing tools are reported now, and not when they are needed.
    open_files::raise_limit()?;
    debian::valgrind()?;
    let servers = Servers::start()?;
    let clippy = ["clippy", "--workspace", "--all-targets", "--all-features", "--", "-D", "warnings"];
    step("clippy", &mut cargo(clippy))?;
    check_features_alone()?;
    step("programs", &mut tidegate_servers::build_programs(&fuzz::targets()?))?;
    let tests = ["test", "--workspace", "--all-features", "--tests", "--no-fail-fast"];
    step("tests", cargo(tests).envs(servers.environment()))?;
    run_examples(&servers)?;
    drop(servers);
    step("doc tests", &mut cargo(["test", "--workspace", "--all-features", "--doc"]))?;
    fuzz::replay()?;
    loom(2)?;
    instructions::check()?;
    docs("docs without features", &["--package", "tidegate", "--no-default-features"])?;
    docs("docs with some features", &["--package", "tidegate", "--features", "axum,redis,ws"])?;
    // The last one, which stays in the target folder.
    docs("docs", &["--workspace", "--all-features"])?;
    wasm::check_core()?;
    println!("\n== everything: ok");
    Ok(())
}

/// The minimum number of loom tests, because a filter by name could silently find none.
const LOOM_TESTS: usize = 9;

/// Runs the memory store's concurrent core under loom: every order of two threads, up to that many preemptions.
pub(crate) fn loom(preemptions: u32) -> Result<(), TaskError> {
    let tests = || {
        let mut command = cargo(["test", "--release", "--package", "tidegate", "--lib", "loom_tests"]);
        // A folder of its own, because other flags would rebuild everything each time.
        command.args(["--target-dir", "target/loom"]);
        command.env("RUSTFLAGS", "--cfg loom").env("LOOM_MAX_PREEMPTIONS", preemptions.to_string());
        command
    };
    step("loom", &mut tests())?;
    let listed = output_of(tests().args(["--", "--list"]).stderr(Stdio::inherit()))?;
    match listed.lines().filter(|line| line.ends_with(": test")).count() {
        found if found < LOOM_TESTS => Err(TaskError(format!("loom: {found} tests, and there were {LOOM_TESTS}"))),
        _ => Ok(()),
    }
}

/// Builds documentation. A link that leads nowhere is an error.
fn docs(name: &str, arguments: &[&str]) -> Result<(), TaskError> {
    step(name, cargo(["doc", "--no-deps"]).args(arguments).env("RUSTDOCFLAGS", "-D warnings"))
}

/// Checks a part of the workspace by itself. With clippy, and not `check` with other flags: it takes the dependencies that the
/// workspace's own check has built.
fn check(name: &str, arguments: &[&str]) -> Result<(), TaskError> {
    step(name, cargo(["clippy"]).args(arguments).args(["--", "-D", "warnings"]))
}

/// Every feature builds alone. The plain crate builds neither a runtime nor a parser.
fn check_features_alone() -> Result<(), TaskError> {
    let folder = Path::new("crates/tidegate");
    let library = ["--package", "tidegate", "--no-default-features", "--features"];
    check("no feature", &library[..3])?;
    for feature in packages::feature_names(folder)? {
        check(&format!("feature {feature} alone"), &[&library[..], &[&feature]].concat())?;
    }
    adapters::check_one_framework_each(folder)?;
    let plain = packages::dependency_names("tidegate", "")?;
    for unwanted in ["tokio", "redis", "rusqlite", "tokio-postgres", "http", "serde", "toml"] {
        if plain.contains(unwanted) {
            return Err(TaskError(format!("the plain crate builds {unwanted}")));
        }
    }
    Ok(())
}

/// Checks that everything that users install or depend on builds alone. Other tests build it with all features, and
/// with those of other packages.
pub(crate) fn check_packages_alone() -> Result<(), TaskError> {
    check("the program", &["--package", "tidegate-server"])?;
    check("the testkit", &["--package", "tidegate-testkit"])?;
    check("the testkit with adapters", &["--package", "tidegate-testkit", "--features", "adapters"])?;
    for name in adapters::names()? {
        let package = adapters::package(&name);
        check(&package, &["--package", &package])?;
    }
    check("the attribute", &["--package", "tidegate-macros"])?;
    check("examples", &["--package", "tidegate-examples", "--examples"])?;
    check("example chat", &["--package", "tidegate", "--example", "chat"])
}

/// Runs the examples that end by themselves.
fn run_examples(servers: &Servers) -> Result<(), TaskError> {
    // Example servers run until they are stopped, and have tests of their own.
    let serves = |name: &str| name.starts_with("axum_") || name.ends_with("_memory");
    let mut names = packages::program_names("examples")?;
    for adapter in adapters::names()? {
        names.extend(packages::program_names(&adapters::examples(&adapter))?);
    }
    for name in names.into_iter().filter(|name| !serves(name)) {
        let mut command = tidegate_servers::program(&format!("examples/{name}"));
        if ["over_time", "overload", "window_edge"].contains(&name.as_str()) {
            command.arg("--check");
        }
        step(&format!("example {name}"), command.envs(servers.environment()))?;
    }
    Ok(())
}
