//! Whether a page of another site asks.

use http::Uri;
use http::header::{FORWARDED, HOST, HeaderMap, HeaderName, ORIGIN};

use super::Problem;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Refuses what another site's page asks in the browser of somebody who may: browsers say where a page is from, and nobody
/// else does. Such a page cannot read an answer, so this is for what takes or changes something.
pub fn same_site(uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
    let told = |name: HeaderName| headers.get(name).map(|value| value.as_bytes());
    let from_elsewhere = match told(SEC_FETCH_SITE) {
        Some(site) => site != b"same-origin" && site != b"none",
        // Told where the other is not: over a network without TLS.
        None => told(ORIGIN).is_some_and(|origin| {
            // HTTP/2 names the server beside the path, and in no header.
            let named = uri.authority().map(|authority| authority.as_str().as_bytes());
            let server = named.or_else(|| told(HOST)).unwrap_or_default();
            origin.strip_prefix(b"http://").or_else(|| origin.strip_prefix(b"https://")) != Some(server)
        }),
    };
    if from_elsewhere { Err(Problem::forbidden("pages of other sites may not ask")) } else { Ok(()) }
}

/// The same of what a proxy asks on behalf of its clients, who may well come from other sites: then the proxy says that it
/// does, which no page can.
pub fn same_site_or_proxy(uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
    let from_proxy = headers.keys().any(|name| name.as_str().starts_with("x-forwarded-") || *name == FORWARDED);
    if from_proxy { Ok(()) } else { same_site(uri, headers) }
}
