//! Who opens a connection.

use std::net::IpAddr;
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use http::{HeaderMap, Request, Uri};

use super::{Code, Data, Error, Router};
use crate::clock::before;
use crate::http::Client;

/// The request that opens a connection, for [`authenticate`](super::RouterBuilder::authenticate).
///
/// A browser sends the cookies of a site along with a connection that any other site opens. So a program that knows its
/// users by cookies compares the header `origin` with its own.
#[derive(Debug)]
pub struct Handshake {
    request: Request<()>,
    client: Option<Client>,
}

impl Handshake {
    /// The address that was asked for, with its query.
    pub fn uri(&self) -> &Uri {
        self.request.uri()
    }

    /// The headers. A client can write anything into them.
    pub fn headers(&self) -> &HeaderMap {
        self.request.headers()
    }

    /// The client, as far as its address can be known.
    pub fn client(&self) -> Option<&Client> {
        self.client.as_ref()
    }

    /// The request itself, with its extensions.
    pub fn request(&self) -> &Request<()> {
        &self.request
    }
}

impl<D: Data> Router<D> {
    /// Finds out who opens a connection.
    pub(super) async fn authenticate(
        &self,
        request: Request<()>,
        peer: Option<IpAddr>,
    ) -> Result<(D, Option<Client>), Error> {
        let inner = self.inner();
        let find = |peer| inner.client_address.find_noticing(&inner.warning, peer, request.headers());
        let client = peer.map(find);
        let authenticated = async { (inner.authenticate)(Handshake { request, client }).await };
        let authenticated = AssertUnwindSafe(authenticated).catch_unwind();
        let late = tokio::time::sleep(inner.settings.handshake_timeout);
        let too_late = || Err(Error::new(Code::DeadlineExceeded, "Authentication took too long"));
        let panicked = |_| Err(Error::internal());
        let data = before(late, authenticated).await.map_or_else(too_late, |known| known.unwrap_or_else(panicked))?;
        Ok((data, client))
    }
}
