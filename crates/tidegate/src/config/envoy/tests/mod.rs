//! What files in the format of envoyproxy/ratelimit say.

mod accepted;
mod document;
mod files;
mod limits;
mod matching;
mod mutations;
mod refused;

use super::{Domains, Found, Limited};

#[track_caller]
fn domains(text: &str) -> Domains {
    Domains::parse(text, "t.yaml").unwrap_or_else(|errors| panic!("{errors}\nin:\n{text}"))
}

/// What is wrong with a text, as people see it.
#[track_caller]
fn refused(text: &str) -> String {
    Domains::parse(text, "t.yaml").expect_err(text).to_string()
}

/// The limit's name and the key's text of what is found, in one line.
fn told(found: &Found<'_>) -> String {
    match found {
        Found::Nothing => "nothing".to_owned(),
        Found::Unlimited => "unlimited".to_owned(),
        Found::Limited(limited) => format!("{} {}", limited.limit, limited.key.to_text()),
    }
}

#[track_caller]
fn limited<'a>(domains: &'a Domains, entries: &'a [(&'a str, &'a str)]) -> Limited<'a> {
    match domains.find("d", entries) {
        Found::Limited(limited) => limited,
        found => panic!("{found:?} for {entries:?}"),
    }
}
