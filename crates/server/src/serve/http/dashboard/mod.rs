//! The dashboard: a page made for looking, and the data it shows.

mod data;

use std::sync::Arc;

use axum::Router;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS};

pub(super) use data::data;

use crate::serve::gate::Gate;

/// Nothing but what comes from here, nothing written into the page, and no other page around it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The page and its parts. There is nothing to know from them, so that they need no token; [`data`] does.
pub(super) fn pages() -> Router<Arc<Gate>> {
    let page = || async { part("text/html; charset=utf-8", include_str!("dashboard.html")) };
    let style = || async { part("text/css; charset=utf-8", include_str!("dashboard.css")) };
    let script = || async { part("text/javascript; charset=utf-8", include_str!("dashboard.js")) };
    let chart = || async { part("text/javascript; charset=utf-8", include_str!("chart.js")) };
    let icon = || async { part("image/svg+xml", include_str!("icon.svg")) };
    Router::new()
        .route("/", get(page))
        .route("/dashboard.css", get(style))
        .route("/dashboard.js", get(script))
        .route("/dashboard/chart.js", get(chart))
        .route("/dashboard/icon.svg", get(icon))
}

fn part(kind: &'static str, text: &'static str) -> Response {
    let headers = [
        (CONTENT_TYPE, kind),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        // Another version of the program has another page.
        (CACHE_CONTROL, "no-cache"),
    ];
    (headers, text).into_response()
}
