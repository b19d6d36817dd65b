//! The objects that the configuration binds.

use http::StatusCode;
use tidegate::api::Problem;
use tidegate::{StoreError, StoreErrorKind};
use worker::ObjectNamespace;
use worker::send::SendFuture;

use super::Objects;
use crate::object::Asked;
use crate::shards::object_name;

/// The objects that the configuration binds.
#[derive(Clone)]
pub(crate) struct Namespace(ObjectNamespace);

impl Namespace {
    pub(crate) fn new(objects: ObjectNamespace) -> Self {
        Namespace(objects)
    }

    async fn send_here(&self, to: Asked, what: &str, body: &[u8]) -> Result<Vec<u8>, StoreError> {
        let unreachable = |error: worker::Error| {
            StoreError::new(StoreErrorKind::Unavailable, format!("object {} cannot be asked: {error}", to.shard))
        };
        let stub = self.0.get_by_name(&object_name(to.shard)).map_err(unreachable)?;
        let request = to.request(what, body).map_err(unreachable)?;
        let mut answer = stub.fetch_with_request(request).await.map_err(unreachable)?;
        let said = answer.bytes().await.map_err(unreachable)?;
        let status = StatusCode::from_u16(answer.status_code()).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
        if status == StatusCode::OK {
            return Ok(said);
        }
        let kind = if status.is_client_error() { StoreErrorKind::Unsupported } else { StoreErrorKind::Unavailable };
        Err(StoreError::new(kind, detail(status, &said)))
    }
}

impl Objects for Namespace {
    async fn send(&self, to: Asked, what: &'static str, body: Vec<u8>) -> Result<Vec<u8>, StoreError> {
        // A Worker has one thread, so nothing is ever sent to another.
        SendFuture::new(self.send_here(to, what, &body)).await
    }
}

/// What an object says is wrong.
pub(crate) fn detail(status: StatusCode, body: &[u8]) -> String {
    Problem::detail_in(status, body).unwrap_or_else(|| format!("an object answered {status} and does not say why"))
}
