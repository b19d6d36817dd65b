//! A Worker's handler, behind a gate.

use std::net::IpAddr;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body::Body;
use http_body_util::{Either, Full};
use tidegate::http::{Gate, RequestHead};
use tidegate::tower::admission::ResponseBody;

/// What is answered: by the gate, or by the handler.
pub type Answered<B> = Either<Full<Bytes>, ResponseBody<B>>;

/// Answers a request with `handler`, if the gate lets it in; otherwise with the denial, as every transport that speaks HTTP
/// does.
///
/// The client is who `cf-connecting-ip` says it is: the platform writes that header, and no client can. A request without
/// it, as one from another Worker may be, has no address; where no key stands in for it, that is an error and never
/// everybody's own bucket.
///
/// ```no_run
/// # use tidegate::http::Gate;
/// # async fn example(gate: &Gate, request: worker::HttpRequest) -> worker::Result<()> {
/// let response = tidegate_worker::limited(gate, request, async |_request| {
///     Ok::<_, worker::Error>(http::Response::new(worker::Body::empty()))
/// })
/// .await?;
/// # Ok(()) }
/// ```
pub async fn limited<B, R: Body, E>(
    gate: &Gate,
    mut request: Request<B>,
    handler: impl AsyncFnOnce(Request<B>) -> Result<Response<R>, E>,
) -> Result<Response<Answered<R>>, E> {
    let entering = gate.admit(&RequestHead::from_request(&request).with_peer(client(request.headers())));
    let admitted = match entering.await {
        Ok(admitted) => admitted,
        Err(answer) => return Ok(answer.map(|body| Either::Left(Full::from(body)))),
    };
    admitted.insert_outcome(request.extensions_mut());
    let (mut head, body) = handler(request).await?.into_parts();
    let in_flight = admitted.finish(head.status, &mut head.headers, body.size_hint().exact()).await;
    Ok(Response::from_parts(head, Either::Right(ResponseBody::new(body, in_flight))))
}

/// The client, as the platform tells it.
pub(crate) fn client(headers: &HeaderMap) -> Option<IpAddr> {
    // The platform writes one; of several, none can be told from what somebody else wrote.
    let mut told = headers.get_all("cf-connecting-ip").iter();
    let only = told.next().filter(|_| told.next().is_none())?;
    only.to_str().ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_address_of_the_platform_is_believed() {
        let told = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append("cf-connecting-ip", value.parse().unwrap());
            }
            client(&headers).map(|address| address.to_string())
        };
        assert_eq!(told(&["2001:db8::1"]).as_deref(), Some("2001:db8::1"));
        for wrong in [&[][..], &["192.0.2.1", "192.0.2.2"], &["192.0.2.1, 192.0.2.2"], &["nonsense"], &[""]] {
            assert_eq!(told(wrong), None, "{wrong:?}");
        }
    }
}
