//! The adapter crates, read from their folder, and a check that each crate and feature builds only its own framework.

use std::path::Path;

use crate::cargo::TaskError;
use crate::packages;

/// The folder of the adapter crates. `crates/adapters/poem` is the package `tidegate-poem`.
const FOLDER: &str = "crates/adapters";

/// The frameworks of the library's features.
const FEATURE_FRAMEWORKS: [(&str, &str); 3] = [("axum", "axum"), ("reqwest", "reqwest"), ("tonic", "grpc")];

/// The frameworks of the adapter crates.
const ADAPTER_FRAMEWORKS: [(&str, &str); 9] = [
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

/// Returns the names of the adapter crates' folders, sorted.
pub(crate) fn names() -> Result<Vec<String>, TaskError> {
    let failed = |error| TaskError(format!("{FOLDER}: {error}"));
    let entries = Path::new(FOLDER).read_dir().map_err(failed)?;
    let names = entries.map(|entry| Ok(entry.map_err(failed)?.file_name().to_string_lossy().into_owned()));
    let mut names = names.collect::<Result<Vec<_>, TaskError>>()?;
    names.sort();
    Ok(names)
}

/// Returns the package of an adapter crate.
pub(crate) fn package(name: &str) -> String {
    format!("tidegate-{name}")
}

/// Returns the folder of an adapter crate's examples.
pub(crate) fn examples(name: &str) -> String {
    format!("{FOLDER}/{name}/examples")
}

/// Checks that every feature of the library in `folder`, and every adapter crate, builds only its own framework, if it
/// has one.
pub(crate) fn check_one_framework_each(folder: &Path) -> Result<(), TaskError> {
    let (features, adapters) = (packages::feature_names(folder)?, names()?);
    if let Some((framework, own)) = FEATURE_FRAMEWORKS.iter().find(|(_, own)| !features.iter().any(|name| name == own))
    {
        return Err(TaskError(format!("there is no feature {own} for {framework}")));
    }
    if let Some((framework, own)) = ADAPTER_FRAMEWORKS.iter().find(|(_, own)| !adapters.iter().any(|name| name == own))
    {
        return Err(TaskError(format!("there is no crate {FOLDER}/{own} for {framework}")));
    }
    for feature in features {
        check_builds_only(&format!("feature {feature}"), "tidegate", &feature, |(_, own)| own == feature)?;
    }
    for adapter in adapters {
        let package = package(&adapter);
        if !ADAPTER_FRAMEWORKS.iter().any(|(_, own)| *own == adapter) {
            return Err(TaskError(format!("xtask does not know the framework of {package}")));
        }
        check_builds_only(&package, &package, "", |(_, own)| own == adapter)?;
    }
    println!("\n== one framework each: ok");
    Ok(())
}

fn check_builds_only(
    what: &str,
    package: &str,
    feature: &str,
    is_own: impl Fn((&str, &str)) -> bool,
) -> Result<(), TaskError> {
    let built = packages::dependency_names(package, feature)?;
    for (framework, own) in FEATURE_FRAMEWORKS.into_iter().chain(ADAPTER_FRAMEWORKS) {
        match (built.contains(framework), is_own((framework, own))) {
            (true, false) => return Err(TaskError(format!("{what} builds {framework}"))),
            (false, true) => return Err(TaskError(format!("{what} does not build {framework}"))),
            _ => {}
        }
    }
    Ok(())
}
