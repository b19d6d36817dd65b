//! A Worker that greets each client five times a minute.
#![forbid(unsafe_code)]

use std::sync::OnceLock;

use http::Response;
use tidegate::http::Gate;
use tidegate::resilience::Resilience;
use tidegate::{Limiter, Quota, minutes, seconds};
use tidegate_worker::{Answered, DurableObjectStore, Edge, limited};
use worker::{Context, Env, HttpRequest, event};

// The class of the objects, which the configuration binds.
pub use tidegate_worker::RateLimiter;

/// Answers every request, if its client has not had too many.
#[event(fetch)]
async fn fetch(request: HttpRequest, env: Env, _: Context) -> worker::Result<Response<Answered<String>>> {
    let gate = gate(&env).map_err(|error| worker::Error::RustError(error.to_string()))?;
    limited(&gate, request, async |_| Ok(Response::new("hello\n".to_owned()))).await
}

/// Five a minute for each client, made once for each isolate.
fn gate(env: &Env) -> Result<Gate, Box<dyn std::error::Error>> {
    static GATE: OnceLock<Gate> = OnceLock::new();
    if let Some(gate) = GATE.get() {
        return Ok(gate.clone());
    }
    let limiter = Limiter::builder()
        .limit("greeting", Quota::fixed_window(5, minutes(1))?)
        .store(DurableObjectStore::new(env)?)
        // An object may be asleep or on another continent.
        .resilience(Resilience::new(Edge).timeout(seconds(2)))
        .build()?;
    let made = Gate::new(limiter.enforcer("greeting")?);
    Ok(GATE.get_or_init(|| made).clone())
}
