//! Cases about responses: the headers, bodies and outcomes that clients and handlers receive.

use tidegate::http::{Gate, HeaderStyle, LimitHeaders, RateLimit};

use super::fixtures::api_limiter;
use super::http_client::{Client, get};
use super::{Adapter, App};
use crate::Applicability;

/// A request within its limit is served, and its response has the remaining quota.
pub fn allowed_request_is_served<A: Adapter>() -> Applicability {
    let app = App::new(Gate::new(api_limiter(2).enforcer("api").unwrap()));
    let mut client = Client::connect(app.start::<A>());
    for left in [1, 0] {
        let reply = client.get("/", &[]);
        assert_eq!((reply.status, &*reply.body), (200, "ok"), "{reply:?}");
        assert_eq!(reply.header("ratelimit"), Some(format!(r#""api";r={left};t=60"#)));
        assert_eq!(reply.header("retry-after"), None);
    }
    assert_eq!(app.served(), 2);
    Applicability::Ran
}

/// A request beyond its limit gets 429, a retry time and a problem. It never reaches a handler.
pub fn denied_request_does_not_reach_the_handler<A: Adapter>() -> Applicability {
    let app = App::new(Gate::new(api_limiter(1).enforcer("api").unwrap()));
    let mut client = Client::connect(app.start::<A>());
    assert_eq!(client.get("/", &[]).status, 200);
    // The connection stays usable.
    for _ in 0..2 {
        let reply = client.get("/", &[]);
        assert_eq!(reply.status, 429);
        assert_eq!(
            (reply.header("retry-after").as_deref(), reply.header("ratelimit").as_deref()),
            (Some("60"), Some(r#""api";r=0;t=60"#))
        );
        let problem = reply.problem();
        assert_eq!(problem["status"], 429);
        assert_eq!(problem["violated-policies"], serde_json::json!(["api"]));
        assert_eq!((&problem["retry_after_ms"], &problem["retryable"]), (&60_000.into(), &true.into()));
    }
    assert_eq!(app.served(), 1);
    Applicability::Ran
}

/// A denied HEAD has the headers of a denied GET, including the length of the body, and no body.
pub fn denied_head_has_no_body<A: Adapter>() -> Applicability {
    let mut client = Client::connect(App::new(Gate::new(api_limiter(1).enforcer("api").unwrap())).start::<A>());
    assert_eq!(client.get("/", &[]).status, 200);
    let get = client.get("/", &[]);
    let head = client.head("/");
    assert_eq!((get.status, head.status), (429, 429));
    assert_eq!(head.limit_headers(), get.limit_headers());
    assert_eq!(head.header("content-length"), get.header("content-length"));
    // The client would read a body as the next reply.
    assert_eq!(client.get("/", &[]).status, 429);
    Applicability::Ran
}

/// A denied `HEAD` over HTTP/2 has no body either. hyper would send one, and clients reject it.
pub fn denied_head_has_no_body_over_http2<A: Adapter>() -> Applicability {
    if !A::HTTP2 {
        return Applicability::NotApplicable("its server does not take HTTP/2 as it is");
    }
    let url = format!("http://{}/", App::new(Gate::new(api_limiter(1).enforcer("api").unwrap())).start::<A>());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let client = reqwest::Client::builder().no_proxy().http2_prior_knowledge().build().expect("a client");
        assert_eq!(client.get(&url).send().await.expect("a page").status(), 200);
        let denied = client.get(&url).send().await.expect("a denial");
        let head = client.head(&url).send().await.expect("a denial");
        assert_eq!((denied.status().as_u16(), head.status().as_u16()), (429, 429));
        for name in ["content-length", "ratelimit"] {
            assert!(denied.headers().contains_key(name), "{denied:?}");
            assert_eq!(head.headers().get(name), denied.headers().get(name));
        }
        assert_eq!(head.text().await.expect("no body"), "");
    });
    Applicability::Ran
}

const IETF: [(&str, &str); 2] = [("ratelimit", r#""api";r=0;t=60"#), ("ratelimit-policy", r#""api";q=1;w=60"#)];
const DRAFT03: [(&str, &str); 3] = [("ratelimit-limit", "1"), ("ratelimit-remaining", "0"), ("ratelimit-reset", "60")];
const LEGACY: [(&str, &str); 3] =
    [("x-ratelimit-limit", "1"), ("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "60")];

/// Sends two requests to a limit of one, and expects these headers on the allowed and on the denied response.
fn expect_headers<A: Adapter>(
    styles: impl IntoIterator<Item = HeaderStyle>,
    expected: &[(&str, &str)],
) -> Applicability {
    let limits = RateLimit::new(api_limiter(1).enforcer("api").unwrap()).headers(LimitHeaders::new(styles));
    let address = App::new(limits.into()).start::<A>();
    let reply = get(address, "/", &[]);
    let mut expected = expected.to_vec();
    expected.sort_unstable();
    assert_eq!((reply.status, reply.limit_headers()), (200, expected.clone()));
    let reply = get(address, "/", &[]);
    expected.push(("retry-after", "60"));
    expected.sort_unstable();
    assert_eq!((reply.status, reply.limit_headers()), (429, expected));
    Applicability::Ran
}

/// The headers of the current draft are sent.
pub fn ietf_headers_are_sent<A: Adapter>() -> Applicability {
    expect_headers::<A>([HeaderStyle::Ietf], &IETF)
}

/// The headers of the third draft are sent.
pub fn draft03_headers_are_sent<A: Adapter>() -> Applicability {
    expect_headers::<A>([HeaderStyle::Draft03], &DRAFT03)
}

/// `X-RateLimit-*` headers are sent.
pub fn legacy_headers_are_sent<A: Adapter>() -> Applicability {
    expect_headers::<A>([HeaderStyle::Legacy], &LEGACY)
}

/// All header families can be sent together.
pub fn all_header_families_are_sent<A: Adapter>() -> Applicability {
    let all = [HeaderStyle::Ietf, HeaderStyle::Draft03, HeaderStyle::Legacy];
    expect_headers::<A>(all, &[&IETF[..], &DRAFT03, &LEGACY].concat())
}

/// No header family is sent, but a denial still has its retry time.
pub fn disabled_headers_are_not_sent<A: Adapter>() -> Applicability {
    expect_headers::<A>([], &[])
}

/// A denial's response can be changed, even into a success. It never reaches a handler.
pub fn denial_can_be_customized<A: Adapter>() -> Applicability {
    for status in [503, 200] {
        let limits =
            RateLimit::new(api_limiter(1).enforcer("api").unwrap()).map_response(move |outcome, mut response| {
                *response.status_mut() = u16::try_into(status).expect("a status");
                response.headers_mut().insert("x-busy", "yes".parse().expect("a value"));
                response.headers_mut().insert("content-type", "text/plain".parse().expect("a value"));
                *response.body_mut() = format!("come back in {:?}", outcome.retry_after());
                response
            });
        let app = App::new(limits.into());
        let address = app.start::<A>();
        assert_eq!(get(address, "/", &[]).status, 200);
        let reply = get(address, "/", &[]);
        assert_eq!((reply.status, &*reply.body, app.served()), (status, "come back in Some(60s)", 1));
        let headers = ["x-busy", "content-type", "retry-after"].map(|name| reply.header(name));
        assert_eq!(headers.each_ref().map(Option::as_deref), [Some("yes"), Some("text/plain"), Some("60")]);
    }
    Applicability::Ran
}

/// A handler's response keeps its status, its headers and its body.
pub fn handler_response_is_unchanged<A: Adapter>() -> Applicability {
    let reply = get(App::new(Gate::new(api_limiter(2).enforcer("api").unwrap())).start::<A>(), "/fails", &[]);
    assert_eq!((reply.status, &*reply.body, reply.header("x-app").as_deref()), (401, "no", Some("mine")));
    assert_eq!(reply.header("ratelimit").as_deref(), Some(r#""api";r=1;t=60"#));
    Applicability::Ran
}

/// A handler receives the outcome if `extension` is set, and only then.
pub fn handler_receives_the_outcome<A: Adapter>() -> Applicability {
    let limits = RateLimit::new(api_limiter(5).enforcer("api").unwrap());
    for (limits, expected) in [(limits.clone().extension(), "Some(Some(4))"), (limits, "None")] {
        assert_eq!(get(App::new(limits.into()).start::<A>(), "/outcome", &[]).body, expected);
    }
    Applicability::Ran
}
