//! The limits that are served.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use serde::Serialize;

use super::body;
use crate::serve::gate::Gate;

#[derive(Serialize)]
struct Limits {
    limits: Vec<Limit>,
}

#[derive(Serialize)]
struct Limit {
    name: String,
    algorithm: &'static str,
    rate: u32,
    period_us: u64,
    capacity: u32,
    shadow: bool,
}

pub(super) async fn limits(State(gate): State<Arc<Gate>>) -> Response {
    let served = gate.served.load();
    let limits = served.limits().map(|(name, limit)| {
        let quota = limit.quota().parts();
        Limit {
            name,
            algorithm: quota.algorithm.as_str(),
            rate: quota.rate,
            period_us: quota.period.as_micros() as u64,
            capacity: quota.capacity,
            shadow: limit.is_shadow(),
        }
    });
    let limits = limits.collect();
    body::answer(&Limits { limits })
}
