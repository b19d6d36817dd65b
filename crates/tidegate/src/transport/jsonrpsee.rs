//! Limits for each method of jsonrpsee's servers.
//!
//! ```
//! use jsonrpsee_core::middleware::RpcServiceBuilder; // `jsonrpsee::server::middleware::rpc` has the same
//! use tidegate::http::Peer;
//! use tidegate::jsonrpsee::RpcLimits;
//! use tidegate::{Key, Limiter, Quota, seconds};
//!
//! # #[derive(Clone)] struct User(u64);
//! let limiter = Limiter::builder()
//!     .limit("api", Quota::token_bucket(100, seconds(1))?)
//!     .limit("search", Quota::token_bucket(2, seconds(1))?)
//!     .build()?;
//! let limits = RpcLimits::new((&limiter, "api")) // for each client, all methods that are not named together
//!     .method("search", (&limiter, "search"))
//!     .key(|call| call.extensions().get().map(|user: &User| Key::from(user.0)));
//! let middleware = RpcServiceBuilder::new().layer(limits);
//! # let _ = middleware;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A call that is turned away is answered with an error object: code -32029, and in its data `retryAfterMs`, `retryable`,
//! `code` (the name of gRPC's code) and `violatedPolicies`. A mistake in the program is -32603, a cost that is none -32602.
//! In a batch each call is asked about on its own; a notification that is turned away is dropped, as it has no answer.
//!
//! Who calls is found in the extensions of the HTTP request, where an HTTP middleware has put it: a [`Peer`] unless said
//! otherwise. The number of a connection is nobody's name: a client opens as many as it likes.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;

use jsonrpsee_core::middleware::{Batch, BatchEntry, BatchEntryErr, Notification, RpcServiceT};
use jsonrpsee_core::server::MethodResponse;
use jsonrpsee_types::error::{INTERNAL_ERROR_CODE, INVALID_PARAMS_CODE};
use jsonrpsee_types::{ErrorObject, ErrorObjectOwned, Request};
use serde_json::json;
use tidegate_core::Key;
use tower_layer::Layer;

use super::words::Words;
use crate::Error;
use crate::concurrency::{Priority, Work};
use crate::enforce::{Admission, Admitted, Caller, Enforcer, Guards, Outcome};
use crate::http::{ClientAddress, Extensions, HeaderMap, Peer};

/// The code of a call that was turned away.
pub const REFUSED: i32 = -32029;

type KeyOf = Arc<dyn Fn(&Call<'_>) -> Option<Key<'static>> + Send + Sync>;
type CostOf = Arc<dyn Fn(&Call<'_>) -> u64 + Send + Sync>;

/// Limits for each method: a layer of jsonrpsee's RPC middleware. Cheap to clone: clones are the same.
#[derive(Clone)]
pub struct RpcLimits {
    /// Those of the methods that have none of their own.
    others: Admission,
    methods: Arc<HashMap<String, Admission>>,
    key: KeyOf,
    cost: CostOf,
}

/// What of a call decides about it.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    method: &'a str,
    params: Option<&'a str>,
    extensions: &'a Extensions,
}

impl<'a> Call<'a> {
    /// The method that is called. A client can write anything into it.
    pub fn method(&self) -> &'a str {
        self.method
    }

    /// The parameters, as JSON.
    pub fn params(&self) -> Option<&'a str> {
        self.params
    }

    /// What HTTP middlewares have said about the request.
    pub fn extensions(&self) -> &'a Extensions {
        self.extensions
    }
}

impl RpcLimits {
    /// A limit of all methods together that are not named.
    pub fn new(limits: impl Into<Enforcer>) -> Self {
        RpcLimits::admission(Admission::new(Guards::new(), limits.into()))
    }

    /// The same, with guards of how many calls are in flight. A subscription is in flight until it is answered.
    pub fn admission(others: Admission) -> Self {
        // As everywhere else: with IPv6 it is a network.
        let client = |peer: &Peer| ClientAddress::new().find(peer.0, &HeaderMap::new()).key();
        let peer = move |call: &Call<'_>| call.extensions.get().map(client);
        RpcLimits { others, methods: Arc::default(), key: Arc::new(peer), cost: Arc::new(|_| 1) }
    }

    /// A method with a limit of its own.
    #[must_use]
    pub fn method(self, method: impl Into<String>, limits: impl Into<Enforcer>) -> Self {
        self.method_admission(method, Admission::new(Guards::new(), limits.into()))
    }

    /// The same, with guards of how many of its calls are in flight.
    #[must_use]
    pub fn method_admission(mut self, method: impl Into<String>, admission: Admission) -> Self {
        Arc::make_mut(&mut self.methods).insert(method.into(), admission);
        self
    }

    /// Whom a call is counted under: its [`Peer`] unless said otherwise. A call without a key is refused as a mistake in the
    /// program.
    #[must_use]
    pub fn key(mut self, key: impl Fn(&Call<'_>) -> Option<Key<'static>> + Send + Sync + 'static) -> Self {
        self.key = Arc::new(key);
        self
    }

    /// What a call costs: 1 unless said otherwise. 0 is a mistake in the program: where clients have a say in it, `max(1)`.
    #[must_use]
    pub fn cost_of(mut self, cost: impl Fn(&Call<'_>) -> u64 + Send + Sync + 'static) -> Self {
        self.cost = Arc::new(cost);
        self
    }

    async fn admit(&self, call: Call<'_>) -> Result<Admitted, ErrorObjectOwned> {
        let Some(key) = (self.key)(&call) else { return Err(error(&Outcome::invalid(Error::NoKey))) };
        let mut caller = Caller::new(key);
        if let Some(peer) = call.extensions.get::<Peer>() {
            caller = caller.with_address(peer.0);
        }
        let admission = self.methods.get(call.method).unwrap_or(&self.others);
        let admitted = admission.admit(&caller, (self.cost)(&call), Priority::Default).await;
        admitted.map_err(|outcome| error(&outcome))
    }
}

fn error(outcome: &Outcome) -> ErrorObjectOwned {
    let Words { code, message, retry_after_ms, retryable, violated } = Words::of(outcome);
    let number = match outcome {
        Outcome::Invalid(Error::InvalidCost(_)) => INVALID_PARAMS_CODE,
        Outcome::Invalid(_) => INTERNAL_ERROR_CODE,
        _ => REFUSED,
    };
    let data =
        json!({ "code": code, "retryAfterMs": retry_after_ms, "retryable": retryable, "violatedPolicies": violated });
    ErrorObject::owned(number, message, Some(data))
}

fn of_request<'a>(request: &'a Request<'_>) -> Call<'a> {
    let params = request.params.as_ref().map(|params| params.get());
    Call { method: request.method_name(), params, extensions: request.extensions() }
}

fn of_notification<'a>(notification: &'a Notification<'_>) -> Call<'a> {
    let params = notification.params.as_ref().map(|params| params.get());
    Call { method: notification.method_name(), params, extensions: notification.extensions() }
}

impl<S> Layer<S> for RpcLimits {
    type Service = RpcLimited<S>;

    fn layer(&self, service: S) -> RpcLimited<S> {
        RpcLimited { service, limits: self.clone() }
    }
}

/// A service whose calls have limits, from [`RpcLimits`].
#[derive(Debug, Clone)]
pub struct RpcLimited<S> {
    service: S,
    limits: RpcLimits,
}

impl<S> RpcServiceT for RpcLimited<S>
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
        let RpcLimited { service, limits } = self.clone();
        async move {
            match limits.admit(of_request(&request)).await {
                Ok(admitted) => {
                    let response = service.call(request).await;
                    admitted.release(Work::Done);
                    response
                }
                Err(error) => MethodResponse::error(request.id, error),
            }
        }
    }

    fn notification<'a>(&self, notification: Notification<'a>) -> impl Future<Output = MethodResponse> + Send + 'a {
        let RpcLimited { service, limits } = self.clone();
        async move {
            match limits.admit(of_notification(&notification)).await {
                Ok(admitted) => {
                    let response = service.notification(notification).await;
                    admitted.release(Work::Done);
                    response
                }
                Err(_) => MethodResponse::notification(),
            }
        }
    }

    fn batch<'a>(&self, batch: Batch<'a>) -> impl Future<Output = MethodResponse> + Send + 'a {
        let RpcLimited { service, limits } = self.clone();
        async move {
            let is_empty = batch.is_empty();
            let (mut entries, mut in_flight) = (Vec::with_capacity(batch.len()), Vec::new());
            for entry in batch {
                let admitted = match &entry {
                    Ok(BatchEntry::Call(request)) => limits.admit(of_request(request)).await,
                    Ok(BatchEntry::Notification(notification)) => limits.admit(of_notification(notification)).await,
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
                // Notifications, and none is left. An empty batch would be answered as a mistake.
                return MethodResponse::notification();
            }
            let response = service.batch(Batch::from(entries)).await;
            in_flight.into_iter().for_each(|admitted| admitted.release(Work::Done));
            response
        }
    }
}

impl fmt::Debug for RpcLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RpcLimits { others, methods, .. } = self;
        f.debug_struct("RpcLimits").field("others", others).field("methods", methods).finish_non_exhaustive()
    }
}
