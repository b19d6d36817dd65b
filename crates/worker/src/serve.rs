//! A Worker that serves Tidegate's HTTP API.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body_util::Full;
use tidegate::api::Problem;
use tidegate::http::{ClientAddress, LimitHeaders, RateLimit};
use tidegate::resilience::{Resilience, Resilient};
use tidegate::store::{BoxFuture, DynStore};
use tidegate::{Clock, Quota, Sleeper, SystemClock, Timestamp, seconds};
use worker::send::SendFuture;
use worker::{Delay, Env, HttpRequest};

use crate::api::Api;
use crate::settings::Settings;
use crate::store::{DurableObjectStore, NamespaceClient};

/// The clock and the timers of a Worker.
#[derive(Debug, Clone, Copy, Default)]
pub struct WorkerClock;

impl Clock for WorkerClock {
    fn now(&self) -> Timestamp {
        SystemClock.now()
    }
}

impl Sleeper for WorkerClock {
    fn sleep(&self, span: Duration) -> BoxFuture<'static, ()> {
        // A Worker has one thread, so nothing is ever sent to another.
        Box::pin(SendFuture::new(async move { Delay::from(span).await }))
    }
}

impl Settings {
    /// Creates the store that these settings describe.
    pub fn store(&self, env: &Env) -> worker::Result<DurableObjectStore> {
        Ok(DurableObjectStore::new(env)?.shards(self.shards).cross_shard(self.cross_shard))
    }

    /// Creates that store with a timeout and the failure policies of the limits.
    pub fn resilient_store(&self, env: &Env) -> worker::Result<Resilient<DurableObjectStore>> {
        let resilience = Resilience::new(WorkerClock).timeout(self.timeout());
        Ok(resilience.expected_replicas(self.config.defaults().expected_replicas).build(self.store(env)?))
    }
}

/// Serves Tidegate's HTTP API with the limits in the Worker's [`Settings`].
pub async fn serve(request: HttpRequest, env: &Env) -> worker::Result<Response<Full<Bytes>>> {
    let response = match api(env) {
        Ok(api) => api.handle(request).await,
        // Clients cannot use a Worker with bad settings. The error is for its log.
        Err(error) => {
            worker::console_error!("tidegate: {error}");
            let problem = Problem::internal("the Worker's settings cannot be used: its log says why");
            problem.to_response().map(String::into_bytes)
        }
    };
    Ok(response.map(Full::from))
}

/// Returns the API, which is built once for each isolate: the settings of an isolate never change.
fn api(env: &Env) -> Result<Arc<Api<NamespaceClient>>, Box<dyn std::error::Error>> {
    static API: OnceLock<Arc<Api<NamespaceClient>>> = OnceLock::new();
    if let Some(api) = API.get() {
        return Ok(api.clone());
    }
    let settings = Settings::from_env(env)?;
    let headers = LimitHeaders::from(settings.config.http()).clock(WorkerClock);
    let resilient_store: Arc<dyn DynStore> = Arc::new(settings.resilient_store(env)?);
    let api = Api {
        limiter: settings.config.limiter().store(resilient_store.clone()).sleeper(WorkerClock).build()?,
        resilient_store,
        store: settings.store(env)?.0,
        client_address: ClientAddress::from(settings.config.http()),
        limits: settings.config.limits().to_vec(),
        rate_limit: RateLimit::new(Quota::token_bucket(1, seconds(1))?).headers(headers),
        access: settings.access,
        testing: settings.testing,
    };
    Ok(API.get_or_init(|| Arc::new(api)).clone())
}
