#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;

use jsonrpsee_core::middleware::{Batch, BatchEntry, BatchEntryErr, Notification, RpcServiceT};
use jsonrpsee_core::server::MethodResponse;
use jsonrpsee_types::error::{INTERNAL_ERROR_CODE, INVALID_PARAMS_CODE};
use jsonrpsee_types::{ErrorObject, ErrorObjectOwned, Request};
use serde_json::json;
use tidegate::concurrency::{Completion, Priority};
use tidegate::enforce::{Admission, AdmissionPermit, Caller, ConcurrencyGuards, Enforcer, Outcome, OutcomeSummary};
use tidegate::http::{ClientAddress, Extensions, HeaderMap, PeerAddr};
use tidegate::{Error, Key};
use tower_layer::Layer;

/// The JSON-RPC error code of a call that its limits turn away.
pub const REJECTED_CODE: i32 = -32029;

type KeyFn = Arc<dyn Fn(&RpcCall<'_>) -> Option<Key<'static>> + Send + Sync>;
type CostFn = Arc<dyn Fn(&RpcCall<'_>) -> u64 + Send + Sync>;

/// Limits for each method: a layer of jsonrpsee's RPC middleware. Cheap to clone; clones share limits and permits.
#[derive(Clone)]
pub struct RpcLimitLayer {
    /// The limits of methods without limits of their own.
    default_admission: Admission,
    methods: Arc<HashMap<String, Admission>>,
    key: KeyFn,
    cost: CostFn,
}

/// The parts of a call that keys and costs may depend on.
#[derive(Debug, Clone, Copy)]
pub struct RpcCall<'a> {
    method: &'a str,
    params: Option<&'a str>,
    extensions: &'a Extensions,
}

impl<'a> RpcCall<'a> {
    /// Returns the method. A client can write anything into it.
    pub fn method(&self) -> &'a str {
        self.method
    }

    /// Returns the parameters, as JSON.
    pub fn params(&self) -> Option<&'a str> {
        self.params
    }

    /// Returns the extensions of the HTTP request, where HTTP middlewares put what they know.
    pub fn extensions(&self) -> &'a Extensions {
        self.extensions
    }
}

impl RpcLimitLayer {
    /// Limits all methods without limits of their own together: an [`Enforcer`] (`limiter.enforcer("api")?`) or a bare quota.
    pub fn new(limits: impl Into<Enforcer>) -> Self {
        RpcLimitLayer::from_admission(Admission::new(ConcurrencyGuards::new(), limits.into()))
    }

    /// Limits all methods without limits of their own together, and guards how many of their calls are in flight. A
    /// subscription is in flight until it is answered.
    pub fn from_admission(default_admission: Admission) -> Self {
        // As in all transports, an IPv6 client is counted by its network.
        let client = |peer: &PeerAddr| ClientAddress::new().find(peer.0, &HeaderMap::new()).key();
        let peer = move |call: &RpcCall<'_>| call.extensions.get().map(client);
        RpcLimitLayer { default_admission, methods: Arc::default(), key: Arc::new(peer), cost: Arc::new(|_| 1) }
    }

    /// Gives a method limits of its own.
    #[must_use]
    pub fn method(self, method: impl Into<String>, limits: impl Into<Enforcer>) -> Self {
        self.method_admission(method, Admission::new(ConcurrencyGuards::new(), limits.into()))
    }

    /// Gives a method limits of its own, and guards how many of its calls are in flight.
    #[must_use]
    pub fn method_admission(mut self, method: impl Into<String>, admission: Admission) -> Self {
        Arc::make_mut(&mut self.methods).insert(method.into(), admission);
        self
    }

    /// Sets the key of a call. Defaults to the client of the [`PeerAddr`] among its extensions. A call without a key is
    /// rejected as a mistake in the program.
    #[must_use]
    pub fn key(mut self, key: impl Fn(&RpcCall<'_>) -> Option<Key<'static>> + Send + Sync + 'static) -> Self {
        self.key = Arc::new(key);
        self
    }

    /// Sets the cost of a call. Defaults to 1. A cost of 0 is a mistake in the program: use `max(1)` where clients choose it.
    #[must_use]
    pub fn cost_of(mut self, cost: impl Fn(&RpcCall<'_>) -> u64 + Send + Sync + 'static) -> Self {
        self.cost = Arc::new(cost);
        self
    }

    async fn admit(&self, call: RpcCall<'_>) -> Result<AdmissionPermit, ErrorObjectOwned> {
        let Some(key) = (self.key)(&call) else { return Err(to_error(&Outcome::invalid(Error::NoKey))) };
        let mut caller = Caller::new(key);
        if let Some(peer) = call.extensions.get::<PeerAddr>() {
            caller = caller.with_address(peer.0);
        }
        let admission = self.methods.get(call.method).unwrap_or(&self.default_admission);
        let admitted = admission.admit(&caller, (self.cost)(&call), Priority::Default).await;
        admitted.map_err(|outcome| to_error(&outcome))
    }
}

fn to_error(outcome: &Outcome) -> ErrorObjectOwned {
    let OutcomeSummary { code, message, retry_after_ms, retryable, violated_policies, .. } = outcome.summary();
    let number = match outcome {
        Outcome::Invalid(Error::InvalidCost(_)) => INVALID_PARAMS_CODE,
        Outcome::Invalid(_) => INTERNAL_ERROR_CODE,
        _ => REJECTED_CODE,
    };
    let data = json!({
        "code": code, "retryAfterMs": retry_after_ms, "retryable": retryable, "violatedPolicies": violated_policies,
    });
    ErrorObject::owned(number, message, Some(data))
}

fn call_of_request<'a>(request: &'a Request<'_>) -> RpcCall<'a> {
    let params = request.params.as_ref().map(|params| params.get());
    RpcCall { method: request.method_name(), params, extensions: request.extensions() }
}

fn call_of_notification<'a>(notification: &'a Notification<'_>) -> RpcCall<'a> {
    let params = notification.params.as_ref().map(|params| params.get());
    RpcCall { method: notification.method_name(), params, extensions: notification.extensions() }
}

impl<S> Layer<S> for RpcLimitLayer {
    type Service = RpcLimitService<S>;

    fn layer(&self, service: S) -> RpcLimitService<S> {
        RpcLimitService { service, limits: self.clone() }
    }
}

/// A service with limits on its calls, created by a [`RpcLimitLayer`].
#[derive(Debug, Clone)]
pub struct RpcLimitService<S> {
    service: S,
    limits: RpcLimitLayer,
}

impl<S> RpcServiceT for RpcLimitService<S>
where
    S: RpcServiceT<
            MethodResponse = MethodResponse,
            NotificationResponse = MethodResponse,
            BatchResponse = MethodResponse,
        > + Clone
        + Send
        + Sync
        + 'static,
{
    type MethodResponse = MethodResponse;
    type NotificationResponse = MethodResponse;
    type BatchResponse = MethodResponse;

    fn call<'a>(&self, request: Request<'a>) -> impl Future<Output = MethodResponse> + Send + 'a {
        let RpcLimitService { service, limits } = self.clone();
        async move {
            match limits.admit(call_of_request(&request)).await {
                Ok(admitted) => {
                    let response = service.call(request).await;
                    admitted.release(Completion::Success);
                    response
                }
                Err(error) => MethodResponse::error(request.id, error),
            }
        }
    }

    fn notification<'a>(&self, notification: Notification<'a>) -> impl Future<Output = MethodResponse> + Send + 'a {
        let RpcLimitService { service, limits } = self.clone();
        async move {
            match limits.admit(call_of_notification(&notification)).await {
                Ok(admitted) => {
                    let response = service.notification(notification).await;
                    admitted.release(Completion::Success);
                    response
                }
                Err(_) => MethodResponse::notification(),
            }
        }
    }

    fn batch<'a>(&self, batch: Batch<'a>) -> impl Future<Output = MethodResponse> + Send + 'a {
        let RpcLimitService { service, limits } = self.clone();
        async move {
            let is_empty = batch.is_empty();
            let (mut entries, mut in_flight) = (Vec::with_capacity(batch.len()), Vec::new());
            for entry in batch {
                let admitted = match &entry {
                    Ok(BatchEntry::Call(request)) => limits.admit(call_of_request(request)).await,
                    Ok(BatchEntry::Notification(notification)) => {
                        limits.admit(call_of_notification(notification)).await
                    }
                    Err(_) => {
                        entries.push(entry);
                        continue;
                    }
                };
                match (admitted, entry) {
                    (Ok(admitted), entry) => {
                        in_flight.push(admitted);
                        entries.push(entry);
                    }
                    (Err(error), Ok(BatchEntry::Call(request))) => {
                        entries.push(Err(BatchEntryErr::new(request.id, error)));
                    }
                    (Err(_), _) => {}
                }
            }
            if entries.is_empty() && !is_empty {
                // All were notifications, and rejected. An empty batch would be answered with an error.
                return MethodResponse::notification();
            }
            let response = service.batch(Batch::from(entries)).await;
            in_flight.into_iter().for_each(|admitted| admitted.release(Completion::Success));
            response
        }
    }
}

impl fmt::Debug for RpcLimitLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RpcLimitLayer { default_admission, methods, .. } = self;
        f.debug_struct("RpcLimitLayer")
            .field("default_admission", default_admission)
            .field("methods", methods)
            .finish_non_exhaustive()
    }
}
