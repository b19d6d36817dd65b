//! Clients of envoyproxy/ratelimit: its JSON API, and a real Envoy.

mod json;
mod proxy;
