//! No feature builds a framework that it is not about.

use std::path::Path;

use crate::cargo::Failed;
use crate::{features, tree};

/// Each framework, and the feature that it is for.
const FRAMEWORKS: [(&str, &str); 12] = [
    ("actix-web", "actix"),
    ("async-graphql", "graphql"),
    ("axum", "axum"),
    ("jsonrpsee-core", "jsonrpsee"),
    ("lambda_http", "lambda"),
    ("ntex", "ntex"),
    ("poem", "poem"),
    ("reqwest", "reqwest"),
    ("rocket", "rocket"),
    ("salvo_core", "salvo"),
    ("tonic", "grpc"),
    ("warp", "warp"),
];

/// Every feature of the crate in `folder` builds its own framework, if it has one, and no other.
pub(crate) fn apart(folder: &Path) -> Result<(), Failed> {
    let features = features::of(folder)?;
    if let Some((framework, feature)) = FRAMEWORKS.iter().find(|(_, own)| !features.iter().any(|name| name == own)) {
        return Err(Failed(format!("there is no feature {feature} for {framework}")));
    }
    for feature in features {
        let built = tree::of("tidegate", &feature)?;
        for (framework, own) in FRAMEWORKS {
            match (built.contains(framework), own == feature) {
                (true, false) => return Err(Failed(format!("the feature {feature} builds {framework}"))),
                (false, true) => return Err(Failed(format!("the feature {feature} does not build {framework}"))),
                _ => {}
            }
        }
    }
    println!("\n== frameworks apart: ok");
    Ok(())
}
