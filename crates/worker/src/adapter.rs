//! A Worker's handler, wrapped in limits.

use std::net::IpAddr;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{Either, Full};
use tidegate::http::{Incoming, Peer, RateLimit};

/// What is answered: by the limits, or by the handler.
pub type Answered<B> = Either<Full<Bytes>, B>;

/// Answers a request with `handler`, if the limits admit it; otherwise with the denial, as every transport that speaks HTTP
/// does.
///
/// The client is who `cf-connecting-ip` says it is: the platform writes that header, and no client can. A request without
/// it, as one from another Worker may be, has no address; where no key stands in for it, that is an error and never
/// everybody's own bucket.
///
/// ```no_run
/// # use tidegate::http::RateLimit;
/// # async fn example(rate_limit: &RateLimit, request: worker::HttpRequest) -> worker::Result<()> {
/// let response = tidegate_worker::limited(rate_limit, request, async |_request| {
///     Ok::<_, worker::Error>(http::Response::new(worker::Body::empty()))
/// })
/// .await?;
/// # Ok(()) }
/// ```
pub async fn limited<B, R, E>(
    rate_limit: &RateLimit,
    mut request: Request<B>,
    handler: impl AsyncFnOnce(Request<B>) -> Result<Response<R>, E>,
) -> Result<Response<Answered<R>>, E> {
    if let Some(address) = client(request.headers()) {
        request.extensions_mut().insert(Peer(address));
    }
    let Some(asking) = rate_limit.begin(&Incoming::of(&request)) else {
        return Ok(handler(request).await?.map(Either::Right));
    };
    let mut outcome = asking.decide().await;
    if !outcome.is_allowed() {
        return Ok(rate_limit.answer(&outcome).map(|body| Either::Left(Full::new(Bytes::from(body)))));
    }
    asking.tell_handler(&outcome, request.extensions_mut());
    let mut response = handler(request).await?;
    if asking.is_charged(response.status(), response.headers()) {
        outcome = asking.charge().await;
    }
    rate_limit.write_headers(&outcome, response.headers_mut());
    Ok(response.map(Either::Right))
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
    use http::StatusCode;
    use tidegate::{Quota, minutes};
    use tidegate_testkit::block_on;

    use super::*;

    fn asked(rate_limit: &RateLimit, headers: &[(&'static str, &'static str)], status: u16) -> Response<Answered<()>> {
        let mut request = Request::new(());
        for (name, value) in headers {
            request.headers_mut().append(*name, value.parse().unwrap());
        }
        let handler = async |_| {
            let mut response = Response::new(());
            *response.status_mut() = StatusCode::from_u16(status).unwrap();
            Ok::<_, ()>(response)
        };
        block_on(limited(rate_limit, request, handler)).unwrap()
    }

    fn two_a_minute() -> RateLimit {
        RateLimit::new(Quota::fixed_window(2, minutes(1)).unwrap())
    }

    #[test]
    fn each_client_has_its_own_quota_and_cannot_choose_another() {
        let rate_limit = two_a_minute();
        let ask = |address, forged| {
            let headers = [("cf-connecting-ip", address), ("x-forwarded-for", forged)];
            asked(&rate_limit, &headers, 200)
        };
        let admitted = ask("192.0.2.1", "10.0.0.1");
        assert!(admitted.headers()["ratelimit"].to_str().unwrap().contains("r=1"), "{:?}", admitted.headers());
        assert_eq!(ask("192.0.2.1", "10.0.0.2").status(), 200);
        let denied = ask("192.0.2.1", "10.0.0.3");
        assert_eq!(
            (denied.status(), denied.headers().contains_key("retry-after")),
            (StatusCode::TOO_MANY_REQUESTS, true)
        );
        assert_eq!(denied.headers()["content-type"], "application/problem+json");
        assert_eq!(ask("192.0.2.2", "10.0.0.1").status(), 200);
    }

    #[test]
    fn nobody_known_is_an_error_and_no_bucket_for_all() {
        let rate_limit = two_a_minute();
        for headers in [&[][..], &[("x-forwarded-for", "192.0.2.1")]] {
            assert_eq!(asked(&rate_limit, headers, 200).status(), StatusCode::INTERNAL_SERVER_ERROR);
        }
    }

    #[test]
    fn what_is_charged_afterwards_is_charged_by_the_response() {
        let rate_limit = two_a_minute().charge_when(|status, _| status == 401);
        let ask = |status| asked(&rate_limit, &[("cf-connecting-ip", "192.0.2.1")], status).status().as_u16();
        assert_eq!([200, 401, 200, 401, 200].map(ask), [200, 401, 200, 401, 429]);
    }

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
