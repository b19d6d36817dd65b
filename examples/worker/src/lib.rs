//! A Worker that greets each client five times a minute.
#![forbid(unsafe_code)]

use std::sync::OnceLock;

use http::Response;
use tidegate::http::Gate;
use tidegate::resilience::Resilience;
use tidegate::{Limiter, Quota, minutes, seconds};
use tidegate_worker::{DurableObjectStore, GateResponseBody, WorkerClock, handle_with_gate};
use worker::{Context, Env, HttpRequest, event};

// The class of the objects, which the configuration binds.
pub use tidegate_worker::RateLimiter;

/// Greets every request that is within its client's limit.
#[event(fetch)]
async fn fetch(request: HttpRequest, env: Env, _: Context) -> worker::Result<Response<GateResponseBody<String>>> {
    let gate = gate(&env).map_err(|error| worker::Error::RustError(error.to_string()))?;
    handle_with_gate(&gate, request, async |_| Ok(Response::new("hello\n".to_owned()))).await
}

/// Returns the gate: five requests a minute for each client. It is built once for each isolate.
fn gate(env: &Env) -> Result<Gate, Box<dyn std::error::Error>> {
    static GATE: OnceLock<Gate> = OnceLock::new();
    if let Some(gate) = GATE.get() {
        return Ok(gate.clone());
    }
    let limiter = Limiter::builder()
        .limit("greeting", Quota::fixed_window(5, minutes(1))?)
        .store(DurableObjectStore::new(env)?)
        // An object may be asleep, or on another continent.
        .resilience(Resilience::new(WorkerClock).timeout(seconds(2)))
        .build()?;
    let gate = Gate::new(limiter.enforcer("greeting")?);
    Ok(GATE.get_or_init(|| gate).clone())
}
