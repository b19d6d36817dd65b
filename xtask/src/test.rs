//! `cargo xtask test`: everything that has to hold.

use std::path::Path;

use crate::cargo::{Failed, cargo, step};
use crate::servers::Servers;
use crate::{features, frameworks, fuzz, instructions, tree, wasm};

pub(crate) fn run() -> Result<(), Failed> {
    step("format", &mut cargo(["fmt", "--all", "--check"]))?;
    let clippy = ["clippy", "--workspace", "--all-targets", "--all-features", "--", "-D", "warnings"];
    step("clippy", &mut cargo(clippy))?;
    each_feature_alone()?;
    let servers = Servers::start()?;
    let tests = ["test", "--workspace", "--all-features", "--all-targets"];
    step("tests", cargo(tests).envs(servers.environment()))?;
    // What handlers' attributes may want is put together for each request where they are compiled in, and not otherwise.
    let plain = ["test", "--package", "tidegate", "--no-default-features", "--features", "axum,grpc,tokio"];
    step("tests of the layer without attributes", cargo(plain).args(["--test", "layer", "--test", "no_allocation"]))?;
    examples(&servers)?;
    drop(servers);
    step("doc tests", &mut cargo(["test", "--workspace", "--all-features", "--doc"]))?;
    fuzz::replay()?;
    loom(2)?;
    instructions::check()?;
    let docs = ["doc", "--workspace", "--all-features", "--no-deps"];
    step("docs", cargo(docs).env("RUSTDOCFLAGS", "-D warnings"))?;
    wasm::core()?;
    println!("\n== everything: ok");
    Ok(())
}

/// The memory store's concurrent core under loom: every order of two threads, up to that many preemptions.
pub(crate) fn loom(preemptions: u32) -> Result<(), Failed> {
    let mut command = cargo(["test", "--release", "--package", "tidegate", "--lib", "loom_tests"]);
    // A folder of its own: other flags would rebuild everything each time.
    command.args(["--target-dir", "target/loom"]);
    command.env("RUSTFLAGS", "--cfg loom").env("LOOM_MAX_PREEMPTIONS", preemptions.to_string());
    step("loom", &mut command)
}

/// Every feature builds alone, and the plain crate builds neither a runtime nor a parser.
fn each_feature_alone() -> Result<(), Failed> {
    let folder = Path::new("crates/tidegate");
    let check = |name: &str, feature: &str| {
        let arguments = ["check", "--package", "tidegate", "--no-default-features", "--features", feature];
        step(name, cargo(arguments).env("RUSTFLAGS", "-D warnings").args(["--target-dir", "target/features"]))
    };
    check("no feature", "")?;
    for feature in features::of(folder)? {
        check(&format!("feature {feature} alone"), &feature)?;
    }
    frameworks::apart(folder)?;
    let plain = tree::of("tidegate", "")?;
    for unwanted in ["tokio", "redis", "rusqlite", "tokio-postgres", "http", "serde", "toml"] {
        if plain.contains(unwanted) {
            return Err(Failed(format!("the plain crate builds {unwanted}")));
        }
    }
    Ok(())
}

/// The examples that end by themselves run, and say what they say.
fn examples(servers: &Servers) -> Result<(), Failed> {
    let folder = Path::new("examples");
    let files = std::fs::read_dir(folder).map_err(|error| Failed(format!("examples: {error}")))?;
    let mut names: Vec<String> = files
        .filter_map(|file| Some(file.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
        // Those that serve until they are stopped are asked by tests of their own.
        .filter(|name| !name.starts_with("axum_") && !name.ends_with("_memory"))
        .collect();
    names.sort();
    for name in names {
        let mut command = cargo(["run", "--quiet", "--package", "tidegate-examples", "--example", &name]);
        if ["overload", "window_edge"].contains(&name.as_str()) {
            command.args(["--", "--check"]);
        }
        step(&format!("example {name}"), command.envs(servers.environment()))?;
    }
    Ok(())
}
