//! The HTTP client: one kind of call, over connections that are kept.

use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::client::legacy::Client as Pool;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tidegate_core::{Decision, StoreError};

use super::connector::Connector;
use super::error::{broken, not_ours, refused, unreachable};
use super::kept::Kept;
use super::unsupported;
use crate::api::MAX_BATCH_BODY_BYTES;
use crate::api::apply::ApplyResponse;

/// More than any answer to a call that the server takes.
const LARGEST: usize = 4 << 20;

/// What asks the server. Clones share the connections.
#[derive(Clone)]
pub(super) struct Client {
    pool: Pool<Kept<Connector>, Full<Bytes>>,
    target: Uri,
    token: Option<HeaderValue>,
}

impl Client {
    /// Over connections that are made like this, and kept for so long when nobody uses them.
    pub(super) fn new(target: Uri, token: Option<HeaderValue>, connector: Kept<Connector>, idle: Duration) -> Self {
        let pool =
            Pool::builder(TokioExecutor::new()).pool_idle_timeout(idle).pool_timer(TokioTimer::new()).build(connector);
        Client { pool, target, token }
    }

    pub(super) fn url(&self) -> &Uri {
        &self.target
    }

    /// Sends a call with so many requests, and reads as many answers.
    pub(super) async fn ask(
        &self,
        call: Vec<u8>,
        asked: usize,
    ) -> Result<Vec<Result<Decision, StoreError>>, StoreError> {
        if call.len() > MAX_BATCH_BODY_BYTES {
            let found = call.len();
            return Err(unsupported(format!(
                "one call of {found} bytes, of which the server takes {MAX_BATCH_BODY_BYTES}"
            )));
        }
        let mut request = Request::new(Full::new(Bytes::from(call)));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.target.clone();
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(token) = &self.token {
            headers.insert(AUTHORIZATION, token.clone());
        }
        let response = self.pool.request(request).await.map_err(unreachable)?;
        let status = response.status();
        let body = Limited::new(response.into_body(), LARGEST).collect().await.map_err(broken)?.to_bytes();
        if !status.is_success() {
            return Err(refused(status, &body));
        }
        let answers = ApplyResponse::parse(&body).ok_or_else(|| not_ours("it is not what /v1/apply answers"))?;
        if answers.len() != asked {
            return Err(not_ours("it has another number of decisions than were asked for"));
        }
        Ok(answers)
    }
}
