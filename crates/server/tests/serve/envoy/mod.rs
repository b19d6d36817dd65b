//! What was written for envoyproxy/ratelimit: its JSON, and a real Envoy.

mod json;
mod proxy;
