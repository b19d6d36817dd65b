//! Clients of envoyproxy/ratelimit: its JSON API, and a real Envoy.

mod json;
#[cfg(feature = "_real-servers")]
mod proxy;
