//! Access to the HTTP API: the token, and requests from pages of other sites.

use reqwest::{Client, StatusCode};

use super::{LIMITS, TempFile, start_server, url};
use crate::serve::program::Program;

const TOKEN: &str = "0123456789abcdef-token";

#[tokio::test]
async fn api_calls_need_the_token() {
    let config = TempFile::new(LIMITS);
    let program = Program::start_with_env(&["--config", config.path()], &[("TIDEGATE_TOKEN", TOKEN)]);
    let right = format!("Bearer {TOKEN}");
    let cases: [(Option<&str>, u16); 6] = [
        (None, 401),
        (Some("Bearer "), 401),
        (Some(TOKEN), 401),
        (Some("Bearer 0123456789abcdef-tokem"), 401),
        (Some("Basic 0123456789abcdef-token"), 401),
        (Some(&right), 200),
    ];
    for (shown, status) in cases {
        let mut request = Client::new().get(url(&program, "/v1/limits"));
        if let Some(shown) = shown {
            request = request.header("authorization", shown);
        }
        let answer = request.send().await.expect("an answer");
        assert_eq!(answer.status(), status, "{shown:?}");
        assert_eq!(answer.headers().contains_key("www-authenticate"), status == 401);
    }
    for open in ["/healthz", "/readyz", "/health"] {
        assert_eq!(reqwest::get(url(&program, open)).await.expect("an answer").status(), StatusCode::OK);
    }
    for guarded in ["/v1/auth?limit=two", "/v1/limits", "/metrics", "/dashboard/data"] {
        let status = reqwest::get(url(&program, guarded)).await.expect("an answer").status();
        assert_eq!(status, StatusCode::UNAUTHORIZED, "{guarded}");
    }
}

#[tokio::test]
async fn a_page_of_another_site_may_not_call_the_api() {
    let (program, _config) = start_server(&[]);
    for (site, status) in [("cross-site", 403), ("same-site", 403), ("same-origin", 200), ("none", 200)] {
        let request = Client::new().post(url(&program, "/v1/reset")).header("sec-fetch-site", site);
        let answer = request.body(r#"{"limit":"two","key":"u"}"#).send().await.expect("an answer");
        assert_eq!(answer.status(), status, "{site}");
    }
}

#[tokio::test]
async fn origin_counts_where_browsers_send_no_fetch_metadata() {
    let (program, _config) = start_server(&[]);
    let own = format!("http://{}", program.http.expect("a port"));
    // HTTP/2 has no header that names the server.
    let clients = [Client::new(), Client::builder().http2_prior_knowledge().build().expect("a client")];
    // One on the fast path, and one through the router.
    for (client, path) in clients.iter().flat_map(|client| ["/v1/limit", "/v1/reset"].map(|path| (client, path))) {
        for (origin, status) in [("http://evil.example", 403), ("null", 403), (&*own, 200)] {
            let request = client.post(url(&program, path)).header("origin", origin);
            let answer = request.body(r#"{"limit":"two","key":"u"}"#).send().await.expect("an answer");
            assert_eq!(answer.status(), status, "{origin} {path} {:?}", answer.version());
        }
    }
}

#[tokio::test]
async fn a_proxy_may_ask_for_cross_site_clients_and_a_page_may_not() {
    let (program, _config) = start_server(&[]);
    let auth_request = |forwarded: bool| {
        let request =
            Client::new().get(url(&program, "/v1/auth?limit=two&key=u")).header("sec-fetch-site", "cross-site");
        if forwarded { request.header("x-forwarded-for", "192.0.2.1") } else { request }
    };
    assert_eq!(auth_request(false).send().await.expect("an answer").status(), StatusCode::FORBIDDEN);
    assert_eq!(auth_request(true).send().await.expect("an answer").status(), StatusCode::NO_CONTENT);
}

/// A client that reaches the server by these names.
fn client_of(program: &Program, http2: bool) -> Client {
    let address = program.http.expect("a port");
    let names = ["tidegate.internal", "evil.example"];
    let client = names.iter().fold(Client::builder(), |client, name| client.resolve(name, address));
    let client = if http2 { client.http2_prior_knowledge() } else { client };
    client.build().expect("a client")
}

#[tokio::test]
async fn only_chosen_names_are_answered_without_a_token() {
    let (program, _config) = start_server(&["--allowed-host", "Tidegate.Internal", "--allowed-host", "other"]);
    let port = program.http.expect("a port").port();
    for client in [false, true].map(|http2| client_of(&program, http2)) {
        for (host, status) in
            [("tidegate.internal", 200), ("127.0.0.1", 200), ("localhost", 200), ("evil.example", 421)]
        {
            // On the fast path, and through the router.
            for path in ["/v1/limit", "/v1/reset"] {
                let request = client.post(format!("http://{host}:{port}{path}")).body(r#"{"limit":"five","key":"u"}"#);
                assert_eq!(request.send().await.expect("an answer").status(), status, "{host} {path}");
            }
            for path in ["/v1/limits", "/metrics", "/dashboard/data"] {
                let answer = client.get(format!("http://{host}:{port}{path}")).send().await.expect("an answer");
                assert_eq!(answer.status(), status, "{host} {path}");
                if status == 421 {
                    let problem = answer.text().await.expect("a text");
                    assert!(problem.contains("--allowed-host evil.example"), "{problem}");
                }
            }
            // For probes, which have no name to know.
            for path in ["/healthz", "/health", "/readyz"] {
                let answer = client.get(format!("http://{host}:{port}{path}")).send().await.expect("an answer");
                assert_eq!(answer.status(), 200, "{host} {path}");
            }
        }
    }
}

#[tokio::test]
async fn any_name_is_answered_with_the_token() {
    let config = TempFile::new(LIMITS);
    let program = Program::start_with_env(&["--config", config.path()], &[("TIDEGATE_TOKEN", TOKEN)]);
    let request = client_of(&program, false)
        .get(format!("http://tidegate.internal:{}/v1/limits", program.http.expect("a port").port()));
    assert_eq!(request.bearer_auth(TOKEN).send().await.expect("an answer").status(), 200);
}

#[tokio::test]
async fn proxy_that_asks_by_name_says_that_it_is_one() {
    let (program, _config) = start_server(&["--allowed-host", "tidegate.internal"]);
    let port = program.http.expect("a port").port();
    let auth = |host: &str| client_of(&program, false).get(format!("http://{host}:{port}/v1/auth?limit=five&key=u"));
    assert_eq!(auth("tidegate.internal").send().await.expect("an answer").status(), 403);
    let proxy = auth("tidegate.internal").header("x-forwarded-for", "192.0.2.1");
    assert_eq!(proxy.send().await.expect("an answer").status(), 204);
    assert_eq!(auth("localhost").send().await.expect("an answer").status(), 204);
}
