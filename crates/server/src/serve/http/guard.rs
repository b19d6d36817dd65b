//! Who may ask.

use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::IntoResponse;

use crate::json::Problem;
use crate::serve::auth::{Token, may_ask};

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
