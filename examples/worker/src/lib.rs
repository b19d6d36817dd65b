//! A Worker that greets each client five times a minute.
#![forbid(unsafe_code)]

use std::sync::OnceLock;

use http::Response;
use tidegate::enforce::Enforcer;
use tidegate::http::RateLimit;
use tidegate::{Limiter, Quota, minutes};
use tidegate_worker::{Answered, BINDING, DurableObjectStore, limited};
use worker::{Context, Env, HttpRequest, event};

// The class of the objects, which the configuration binds.
pub use tidegate_worker::RateLimiter;

/// Answers every request, if its client has not had too many.
#[event(fetch)]
async fn fetch(request: HttpRequest, env: Env, _: Context) -> worker::Result<Response<Answered<String>>> {
    let rate_limit = rate_limit(&env).map_err(|error| worker::Error::RustError(error.to_string()))?;
    limited(&rate_limit, request, async |_| Ok(Response::new("hello\n".to_owned()))).await
}

/// Five a minute for each client, made once for each isolate.
fn rate_limit(env: &Env) -> Result<RateLimit, Box<dyn std::error::Error>> {
    static RATE_LIMIT: OnceLock<RateLimit> = OnceLock::new();
    if let Some(rate_limit) = RATE_LIMIT.get() {
        return Ok(rate_limit.clone());
    }
    let store = DurableObjectStore::new(env.durable_object(BINDING)?);
    let limiter = Limiter::builder().limit("greeting", Quota::fixed_window(5, minutes(1))?).store(store).build()?;
    let made = RateLimit::new(Enforcer::new(&limiter, "greeting"));
    Ok(RATE_LIMIT.get_or_init(|| made).clone())
}
