//! `/v1/auth`, the endpoint for forward authentication of proxies.

use reqwest::{Client, Response, StatusCode};

use super::{LIMITS, TempFile, start_server, url};
use crate::serve::program::Program;

async fn send_forward_auth(program: &Program, query: &str, forwarded: Option<&str>) -> Response {
    let mut request = Client::new().get(url(program, &format!("/v1/auth{query}")));
    if let Some(forwarded) = forwarded {
        request = request.header("x-forwarded-for", forwarded);
    }
    request.send().await.expect("an answer")
}

fn header<'a>(response: &'a Response, name: &str) -> &'a str {
    response.headers().get(name).map_or("", |value| value.to_str().expect("text"))
}

#[tokio::test]
async fn forward_auth_answers_204_or_the_denial() {
    let (program, _config) = start_server(&[]);
    for remaining in [1, 0] {
        let answer = send_forward_auth(&program, "?limit=two&key=u1", None).await;
        assert_eq!(answer.status(), StatusCode::NO_CONTENT);
        assert_eq!(header(&answer, "ratelimit-policy"), r#""two";q=2;w=86400"#);
        assert!(header(&answer, "ratelimit").starts_with(&format!(r#""two";r={remaining};t="#)));
    }
    let answer = send_forward_auth(&program, "?limit=two&key=u1", None).await;
    assert_eq!(
        (answer.status(), header(&answer, "content-type")),
        (StatusCode::TOO_MANY_REQUESTS, "application/problem+json")
    );
    let wait: u64 = header(&answer, "retry-after").parse().expect("seconds");
    assert!((86_000..=86_400).contains(&wait), "{wait}");

    let denied = send_forward_auth(&program, "?limit=closed_to_some&key=mallory", None).await;
    assert_eq!((denied.status(), header(&denied, "retry-after")), (StatusCode::FORBIDDEN, ""));
    for (query, status) in [("", 400), ("?limit=tow", 404), ("?limit=two&cost=0", 400), ("?limit=two&kye=u", 400)] {
        assert_eq!(send_forward_auth(&program, query, None).await.status(), status, "{query}");
    }
}

#[tokio::test]
async fn without_a_key_the_peer_address_is_counted_and_headers_are_ignored() {
    let (program, _config) = start_server(&[]);
    for (forwarded, status) in [("192.0.2.1", 204), ("192.0.2.2", 204), ("192.0.2.3", 429)] {
        assert_eq!(send_forward_auth(&program, "?limit=two", Some(forwarded)).await.status(), status);
    }
    // A key cannot impersonate an address, and a request without a key counts as the client.
    assert_eq!(send_forward_auth(&program, "?limit=two&key=127.0.0.1", None).await.status(), 204);
    assert_eq!(send_forward_auth(&program, "?limit=two&key=", None).await.status(), 429);
}

#[tokio::test]
async fn the_http_section_sets_client_address_and_headers() {
    let http = "trust_proxy = 1\nclient_header = \"X-Real-IP\"\nipv6_prefix = 48\n\
                headers = [\"draft03\", \"legacy\"]\nlegacy_reset = \"epoch\"\n";
    let config = TempFile::new(&format!("{LIMITS}\n[http]\n{http}"));
    let program = Program::start(&["--config", config.path()]);
    let ask =
        |address: &str| Client::new().get(url(&program, "/v1/auth?limit=two")).header("x-real-ip", address).send();
    for (address, left) in [("2001:db8:1:2::3", "1"), ("2001:db8:1:ffff::", "0"), ("2001:db8:2::", "1")] {
        let answer = ask(address).await.expect("an answer");
        let headers =
            ["ratelimit-policy", "ratelimit-remaining", "x-ratelimit-remaining"].map(|name| header(&answer, name));
        assert_eq!((answer.status().as_u16(), headers), (204, ["", left, left]), "{address}");
        let [from_now, at] = ["ratelimit-reset", "x-ratelimit-reset"].map(|name| header(&answer, name));
        let [from_now, at] = [from_now, at].map(|seconds| seconds.parse::<u64>().expect("seconds"));
        assert!(from_now <= 86_400 && at > 1_700_000_000, "{from_now} {at}");
    }
    assert_eq!(ask("2001:db8:1::").await.expect("an answer").status(), 429);
}

#[tokio::test]
async fn an_untrusted_proxy_is_logged_once() {
    for (query, times) in [("?limit=two", 1), ("?limit=two&key=u1", 0)] {
        let (program, _config) = start_server(&[]);
        for _ in 0..3 {
            send_forward_auth(&program, query, Some("192.0.2.1")).await;
        }
        let (_, log) = program.stop();
        let warned = log.iter().filter(|line| line.contains("a request from 127.0.0.1 came with x-forwarded-for"));
        assert_eq!(warned.count(), times, "{query}: {log:?}");
        assert!(!log.iter().any(|line| line.contains("192.0.2.1")), "{query}: {log:?}");
    }
}

#[tokio::test]
async fn a_trusted_proxy_names_the_client() {
    let config = TempFile::new(&format!("{LIMITS}\n[http]\ntrust_proxy = [\"127.0.0.0/8\"]\nheaders = [\"legacy\"]\n"));
    let program = Program::start(&["--config", config.path()]);
    for (forwarded, status) in [("192.0.2.1", 204), ("192.0.2.1", 204), ("192.0.2.1", 429), ("192.0.2.2", 204)] {
        assert_eq!(send_forward_auth(&program, "?limit=two", Some(forwarded)).await.status(), status);
    }
    let answer = send_forward_auth(&program, "?limit=two", Some("192.0.2.2, 192.0.2.3")).await;
    assert_eq!((header(&answer, "x-ratelimit-limit"), header(&answer, "x-ratelimit-remaining")), ("2", "1"));
    // The deny list matches the address under every key.
    let answer = send_forward_auth(&program, "?limit=closed_to_some&key=ann", Some("203.0.113.9")).await;
    assert_eq!(answer.status(), StatusCode::FORBIDDEN);
}
