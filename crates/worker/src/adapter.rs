//! A gate in front of a Worker's handler.

use std::net::IpAddr;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body::Body;
use http_body_util::{Either, Full};
use tidegate::http::{Gate, RequestHead};
use tidegate::tower::admission::ResponseBody;

/// The body of a response of the gate or of the handler.
pub type GateResponseBody<B> = Either<Full<Bytes>, ResponseBody<B>>;

/// Calls `handler` for a request that the gate admits. Responds with the denial otherwise, as every HTTP transport
/// does.
///
/// The client address is the one in `cf-connecting-ip`, which the platform writes and no client can. A request without
/// that header, such as one from another Worker, has no address. Where no other key replaces the address, such a
/// request is an error and never shares a bucket.
///
/// ```no_run
/// # use tidegate::http::Gate;
/// # async fn example(gate: &Gate, request: worker::HttpRequest) -> worker::Result<()> {
/// let response = tidegate_worker::handle_with_gate(gate, request, async |_request| {
///     Ok::<_, worker::Error>(http::Response::new(worker::Body::empty()))
/// })
/// .await?;
/// # Ok(()) }
/// ```
pub async fn handle_with_gate<B, R: Body, E>(
    gate: &Gate,
    mut request: Request<B>,
    handler: impl AsyncFnOnce(Request<B>) -> Result<Response<R>, E>,
) -> Result<Response<GateResponseBody<R>>, E> {
    let admission = gate.admit(&RequestHead::from_request(&request).with_peer(client_address(request.headers())));
    let admitted = match admission.await {
        Ok(admitted) => admitted,
        Err(denial) => return Ok(denial.map(|body| Either::Left(Full::from(body)))),
    };
    admitted.insert_outcome(request.extensions_mut());
    let (mut head, body) = handler(request).await?.into_parts();
    let in_flight = admitted.finish(head.status, &mut head.headers, body.size_hint().exact()).await;
    Ok(Response::from_parts(head, Either::Right(ResponseBody::new(body, in_flight))))
}

/// Returns the client address that the platform has written.
pub(crate) fn client_address(headers: &HeaderMap) -> Option<IpAddr> {
    // The platform writes one. Of several, any may be a forgery.
    let mut values = headers.get_all("cf-connecting-ip").iter();
    let only = values.next().filter(|_| values.next().is_none())?;
    only.to_str().ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_single_valid_address_header_is_used() {
        let address = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append("cf-connecting-ip", value.parse().unwrap());
            }
            client_address(&headers).map(|address| address.to_string())
        };
        assert_eq!(address(&["2001:db8::1"]).as_deref(), Some("2001:db8::1"));
        for wrong in [&[][..], &["192.0.2.1", "192.0.2.2"], &["192.0.2.1, 192.0.2.2"], &["nonsense"], &[""]] {
            assert_eq!(address(wrong), None, "{wrong:?}");
        }
    }
}
