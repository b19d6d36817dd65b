//! The HTTP client, which sends one kind of call over pooled connections.

use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::client::legacy::Client as Pool;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tidegate_core::{Decision, StoreError};

use super::background_connector::BackgroundConnector;
use super::connector::Connector;
use super::error::{body_error, foreign_response, request_error, status_error};
use super::unsupported;
use crate::api::MAX_BATCH_BODY_BYTES;
use crate::api::apply::ApplyResponse;

/// The largest response body, which is more than any answer to a call that the server accepts.
const MAX_RESPONSE_BYTES: usize = 4 << 20;

/// An HTTP client for the apply endpoint of one server. Clones share the connections.
#[derive(Clone)]
pub(super) struct Client {
    pool: Pool<BackgroundConnector<Connector>, Full<Bytes>>,
    url: Uri,
    token: Option<HeaderValue>,
}

impl Client {
    /// Builds a client whose connections come from `connector` and stay open for `idle_timeout` without use.
    pub(super) fn new(
        url: Uri,
        token: Option<HeaderValue>,
        connector: BackgroundConnector<Connector>,
        idle_timeout: Duration,
    ) -> Self {
        let pool = Pool::builder(TokioExecutor::new())
            .pool_idle_timeout(idle_timeout)
            .pool_timer(TokioTimer::new())
            .build(connector);
        Client { pool, url, token }
    }

    pub(super) fn url(&self) -> &Uri {
        &self.url
    }

    /// Sends a call of `count` requests and reads as many results.
    pub(super) async fn send(
        &self,
        call: Vec<u8>,
        count: usize,
    ) -> Result<Vec<Result<Decision, StoreError>>, StoreError> {
        if call.len() > MAX_BATCH_BODY_BYTES {
            let found = call.len();
            return Err(unsupported(format!(
                "one call of {found} bytes, of which the server takes {MAX_BATCH_BODY_BYTES}"
            )));
        }
        let mut request = Request::new(Full::new(Bytes::from(call)));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.url.clone();
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(token) = &self.token {
            headers.insert(AUTHORIZATION, token.clone());
        }
        let response = self.pool.request(request).await.map_err(request_error)?;
        let status = response.status();
        let body =
            Limited::new(response.into_body(), MAX_RESPONSE_BYTES).collect().await.map_err(body_error)?.to_bytes();
        if !status.is_success() {
            return Err(status_error(status, &body));
        }
        let results =
            ApplyResponse::parse(&body).ok_or_else(|| foreign_response("it is not what /v1/apply answers"))?;
        if results.len() != count {
            return Err(foreign_response("it has another number of decisions than were asked for"));
        }
        Ok(results)
    }
}
