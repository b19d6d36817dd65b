//! What is sent to a collector: with the feature `otlp` and the flag of that name, traces and metrics; without, nothing.

#[cfg(not(feature = "otlp"))]
pub(super) use nothing::Telemetry;

#[cfg(feature = "otlp")]
pub(super) use super::otlp::Telemetry;

#[cfg(not(feature = "otlp"))]
mod nothing {
    use std::sync::Arc;
    use std::time::Duration;

    use axum::Router;

    use crate::cli::Serve;
    use crate::failure::Failure;
    use crate::serve::gate::Gate;
    use crate::serve::log::Also;

    /// Nothing is sent.
    pub(in crate::serve) struct Telemetry;

    impl Telemetry {
        pub(in crate::serve) fn start(_serve: &Serve) -> Result<Self, Failure> {
            Ok(Telemetry)
        }

        pub(in crate::serve) fn layer(&self) -> Option<Also> {
            None
        }

        pub(in crate::serve) fn observe(&self, _gate: &Arc<Gate>) {}

        pub(in crate::serve) fn is_on(&self) -> bool {
            false
        }

        pub(in crate::serve) fn around(&self, router: Router) -> Router {
            router
        }

        pub(in crate::serve) async fn end(self, _within: Duration) {}
    }
}
