//! Wire types of Tidegate's HTTP API: JSON requests and responses, shared by its servers and the remote store.
//!
//! `tidegate serve` serves it (see `docs/book/src/reference/serve.md` in the repository), and so does a Worker at the edge. The store contract
//! over HTTP is in [`apply`].

mod access;
pub mod apply;
mod fields;
mod problem;
mod requests;

use serde::Deserialize;

pub use access::{BearerToken, is_from_proxy, requested_host, same_site, same_site_or_proxy};
pub use fields::{
    CostField, KeyField, KeyPart, LeaseField, MAX_KEY_BYTES, MAX_KEY_TEXT_BYTES, Op, OpName, TimestampField,
};
pub use problem::Problem;
pub use requests::{
    AdmitRequest, AdmitResponse, AuthRequest, BatchRequest, BatchResponse, DecisionResponse, JointResponse, LeaseToken,
    LimitEntry, LimitRequest, LimitsResponse, ReleaseRequest, RenewRequest, RenewResponse, is_lease_held, lease_ttl_ms,
};

/// The maximum body of a single request. A key of 4 KiB fits, whatever its escapes.
pub const MAX_BODY_BYTES: usize = 64 << 10;
/// The maximum body of a batch.
pub const MAX_BATCH_BODY_BYTES: usize = 1 << 20;

/// The maximum number of requests in a batch.
pub const MAX_BATCH_LEN: usize = 1_000;

/// Parses a JSON body. Errors show the example.
pub fn parse<'a, T: Deserialize<'a>>(body: &'a [u8], example: &str) -> Result<T, Problem> {
    // Serde would also take an array of the fields in order.
    if !body.trim_ascii_start().starts_with(b"{") {
        return Err(Problem::bad_request(format!("not a JSON object, expected such as {example}")));
    }
    serde_json::from_slice(body).map_err(|error| Problem::bad_request(format!("{error}, expected such as {example}")))
}

/// Returns an error if a batch has no requests or too many.
pub fn check_batch_len(found: usize) -> Result<(), Problem> {
    if (1..=MAX_BATCH_LEN).contains(&found) {
        return Ok(());
    }
    Err(Problem::bad_request(format!("requests: found {found}, expected from 1 to {MAX_BATCH_LEN}")))
}
