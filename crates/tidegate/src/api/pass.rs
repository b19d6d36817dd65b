//! Whether a request may pass, as proxies ask it: by the query of `/v1/auth`.

use serde::Deserialize;
use tidegate_core::Cost;

use super::{MAX_KEY, Problem};

/// Whether a request may pass, as proxies ask it.
#[derive(Debug)]
pub struct Pass {
    /// By which limit.
    pub limit: String,
    /// Who is limited; the address of the client when nothing is said, or nobody is named.
    pub key: Option<String>,
    /// How much is asked for.
    pub cost: Cost,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Query {
    limit: String,
    key: Option<String>,
    cost: Option<u64>,
}

impl Pass {
    /// What a query asks, without its question mark.
    pub fn parse(query: Option<&str>) -> Result<Self, Problem> {
        let Query { limit, key, cost } = serde_urlencoded::from_str(query.unwrap_or_default())
            .map_err(|error| Problem::bad_request(format!("{error}, expected such as /v1/auth?limit=api&key=u1")))?;
        if let Some(found) = key.as_ref().map(String::len).filter(|found| *found > MAX_KEY) {
            return Err(Problem::bad_request(format!("key: found {found} bytes, expected at most {MAX_KEY}")));
        }
        let cost = Cost::new(cost.unwrap_or(1)).map_err(|error| Problem::bad_request(error.to_string()))?;
        // What a proxy has nothing for: it would be one budget for everybody.
        let key = key.filter(|key| !key.is_empty());
        Ok(Pass { limit, key, cost })
    }
}
