//! Who may ask.

use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::IntoResponse;
use http::header::{FORWARDED, HOST, HeaderMap, HeaderName, ORIGIN};

use super::problem::Problem;
use crate::serve::auth::{Token, may_ask};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The same, for those only who show the token, if there is one.
pub(super) fn guarded<S: Clone + Send + Sync + 'static>(router: Router<S>, token: Option<Token>) -> Router<S> {
    match token {
        None => router,
        Some(token) => router.layer(from_fn(move |request: Request, next: Next| {
            let may = may_ask(Some(&token), request.headers());
            async move { if may { next.run(request).await } else { Problem::unauthorized().into_response() } }
        })),
    }
}

/// Refuses what another site's page asks in the browser of somebody who may: browsers say where a page is from, and nobody
/// else does. Such a page cannot read an answer, so this is for what takes or changes something.
pub(super) fn same_site(headers: &HeaderMap) -> Result<(), Problem> {
    let told = |name: HeaderName| headers.get(name).map(|value| value.as_bytes());
    let from_elsewhere = match told(SEC_FETCH_SITE) {
        Some(site) => site != b"same-origin" && site != b"none",
        // Told where the other is not: over a network without TLS.
        None => told(ORIGIN).is_some_and(|origin| {
            let server = told(HOST).unwrap_or_default();
            origin.strip_prefix(b"http://").or_else(|| origin.strip_prefix(b"https://")) != Some(server)
        }),
    };
    if from_elsewhere { Err(Problem::forbidden("pages of other sites may not ask")) } else { Ok(()) }
}

/// The same of what a proxy asks on behalf of its clients, who may well come from other sites: then the proxy says that it
/// does, which no page can.
pub(super) fn same_site_or_proxy(headers: &HeaderMap) -> Result<(), Problem> {
    let from_proxy = headers.keys().any(|name| name.as_str().starts_with("x-forwarded-") || *name == FORWARDED);
    if from_proxy { Ok(()) } else { same_site(headers) }
}
