//! The adapter crates, read off their folder, and a check that each crate and feature builds only its own framework.

use std::path::Path;

use crate::cargo::Failed;
use crate::{features, tree};

/// The folder of the adapter crates. `crates/adapters/poem` is the package `tidegate-poem`.
const FOLDER: &str = "crates/adapters";

/// The frameworks of the library's features.
const OF_FEATURES: [(&str, &str); 3] = [("axum", "axum"), ("reqwest", "reqwest"), ("tonic", "grpc")];

/// The frameworks of the adapter crates.
const OF_ADAPTERS: [(&str, &str); 9] = [
    ("actix-web", "actix"),
    ("async-graphql", "graphql"),
    ("jsonrpsee-core", "jsonrpsee"),
    ("lambda_http", "lambda"),
    ("ntex", "ntex"),
    ("poem", "poem"),
    ("rocket", "rocket"),
    ("salvo_core", "salvo"),
    ("warp", "warp"),
];

/// The names of the adapter crates' folders, sorted.
pub(crate) fn names() -> Result<Vec<String>, Failed> {
    let failed = |error| Failed(format!("{FOLDER}: {error}"));
    let entries = Path::new(FOLDER).read_dir().map_err(failed)?;
    let names = entries.map(|entry| Ok(entry.map_err(failed)?.file_name().to_string_lossy().into_owned()));
    let mut names = names.collect::<Result<Vec<_>, Failed>>()?;
    names.sort();
    Ok(names)
}

/// The package of an adapter crate.
pub(crate) fn package(name: &str) -> String {
    format!("tidegate-{name}")
}

/// The folder of an adapter crate's examples.
pub(crate) fn examples(name: &str) -> String {
    format!("{FOLDER}/{name}/examples")
}

/// Every feature of the library in `folder`, and every adapter crate, builds its own framework, if it has one, and no other.
pub(crate) fn build_one_framework_each(folder: &Path) -> Result<(), Failed> {
    let (features, adapters) = (features::of(folder)?, names()?);
    if let Some((framework, own)) = OF_FEATURES.iter().find(|(_, own)| !features.iter().any(|name| name == own)) {
        return Err(Failed(format!("there is no feature {own} for {framework}")));
    }
    if let Some((framework, own)) = OF_ADAPTERS.iter().find(|(_, own)| !adapters.iter().any(|name| name == own)) {
        return Err(Failed(format!("there is no crate {FOLDER}/{own} for {framework}")));
    }
    for feature in features {
        builds_only(&format!("feature {feature}"), "tidegate", &feature, |(_, own)| own == feature)?;
    }
    for adapter in adapters {
        let package = package(&adapter);
        if !OF_ADAPTERS.iter().any(|(_, own)| *own == adapter) {
            return Err(Failed(format!("xtask does not know the framework of {package}")));
        }
        builds_only(&package, &package, "", |(_, own)| own == adapter)?;
    }
    println!("\n== one framework each: ok");
    Ok(())
}

fn builds_only(what: &str, package: &str, feature: &str, is_own: impl Fn((&str, &str)) -> bool) -> Result<(), Failed> {
    let built = tree::of(package, feature)?;
    for (framework, own) in OF_FEATURES.into_iter().chain(OF_ADAPTERS) {
        match (built.contains(framework), is_own((framework, own))) {
            (true, false) => return Err(Failed(format!("{what} builds {framework}"))),
            (false, true) => return Err(Failed(format!("{what} does not build {framework}"))),
            _ => {}
        }
    }
    Ok(())
}
