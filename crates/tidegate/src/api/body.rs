//! The body of a request: bounded in size, and JSON.

use serde::Deserialize;

use super::Problem;

/// How large the body of one question may be: a key of 4 KiB fits, however it is escaped.
pub const ONE: usize = 64 << 10;
/// How large the body of several questions may be.
pub const SEVERAL: usize = 1 << 20;

/// How many questions there may be in one request.
pub const MOST: usize = 1_000;

/// What a body says.
pub fn parse<'a, T: Deserialize<'a>>(body: &'a [u8], example: &str) -> Result<T, Problem> {
    // An array would do for serde, with the fields in order; not here.
    if !body.trim_ascii_start().starts_with(b"{") {
        return Err(Problem::bad_request(format!("not a JSON object, expected such as {example}")));
    }
    serde_json::from_slice(body).map_err(|error| Problem::bad_request(format!("{error}, expected such as {example}")))
}

/// Whether a request has as many questions as it may have.
pub fn check_count(found: usize) -> Result<(), Problem> {
    if (1..=MOST).contains(&found) {
        return Ok(());
    }
    Err(Problem::bad_request(format!("requests: found {found}, expected from 1 to {MOST}")))
}
