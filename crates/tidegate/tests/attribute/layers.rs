//! Handlers under a layer.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Path;
use axum::http::Request;
use axum::response::Response;
use axum::routing::get as on_get;
use tidegate::attribute::LimitError;
use tidegate::http::{HeaderStyle, LimitHeaders, PeerAddr, RateLimit};
use tidegate::tower::RateLimitLayer;
use tidegate::{Clock, Limit, Limiter, Quota, SystemClock, limit, millis, minutes};
use tidegate_testkit::block_on;
use tokio::task::yield_now;
use tower_service::Service;

use crate::support::{builder, left, limiter, quota, waiting_limiter};

const CLIENT: &str = "192.0.2.1";

/// Puts a router under a layer with this limit.
pub(crate) fn layered(limiter: &Limiter, limit: &str, router: Router) -> Router {
    router.layer(RateLimitLayer::new(limiter.enforcer(limit).unwrap()))
}

pub(crate) fn get(app: &Router, path: &str) -> Response {
    let mut request = Request::get(path).body(Body::empty()).unwrap();
    request.extensions_mut().insert(PeerAddr(CLIENT.parse().unwrap()));
    block_on(app.clone().call(request)).unwrap()
}

pub(crate) fn header<'a>(response: &'a Response, name: &str) -> &'a str {
    response.headers().get(name).map_or("", |value| value.to_str().unwrap())
}

pub(crate) fn text(response: Response) -> String {
    String::from_utf8(block_on(to_bytes(response.into_body(), 10_000)).unwrap().into()).unwrap()
}

#[limit("login", key = user)]
async fn login(Path(user): Path<String>) -> Result<String, LimitError> {
    Ok(user)
}

#[limit("mail", key = to, also)]
async fn mail(to: &str) -> Result<(), LimitError> {
    let _ = to;
    Ok(())
}

/// A handler without an attribute that calls a function with one.
async fn remind(Path(user): Path<String>) -> Result<String, LimitError> {
    mail(&user).await?;
    Ok(user)
}

/// A handler and a function that both have an attribute.
#[limit("login", key = user)]
async fn register(Path(user): Path<String>) -> Result<String, LimitError> {
    mail(&user).await?;
    charged_twice(&user).await?;
    Ok(user)
}

#[limit("mail", key = user)]
async fn charged_twice(user: &str) -> Result<(), LimitError> {
    let _ = user;
    Ok(())
}

/// Continues after a denial.
async fn forgiving(Path(user): Path<String>) -> String {
    let denied = mail(&user).await.is_err();
    format!("{user} {denied}")
}

fn routes() -> Router {
    Router::new()
        .route("/login/{user}", on_get(login))
        .route("/remind/{user}", on_get(remind))
        .route("/register/{user}", on_get(register))
        .route("/forgiving/{user}", on_get(forgiving))
        .route("/plain", on_get(async || "plain"))
}

#[test]
fn handler_attribute_replaces_the_layer() {
    let limits = [("api", 5), ("login", 1)];
    for limiter in [limiter(&limits), waiting_limiter(&limits)] {
        let app = layered(&limiter, "api", routes());
        let admitted = get(&app, "/login/alice");
        assert_eq!(admitted.status(), 200);
        assert!(header(&admitted, "ratelimit").starts_with("\"login\";r=0;"));
        assert_eq!([left(&limiter, "api", CLIENT), left(&limiter, "login", "alice")], [5, 0]);

        let denied = get(&app, "/login/alice");
        assert_eq!(denied.status(), 429);
        assert!(header(&denied, "ratelimit").starts_with("\"login\";r=0;"));
        assert!(text(denied).contains("\"violated-policies\":[\"login\"]"));
        assert_eq!(left(&limiter, "api", CLIENT), 5);

        // Other handlers still use the layer.
        let plain = get(&app, "/plain");
        assert!(header(&plain, "ratelimit").starts_with("\"api\";r=4;"));
        assert_eq!(left(&limiter, "api", CLIENT), 4);
    }
}

#[test]
fn all_limits_of_the_layer_are_refunded() {
    let limiter = limiter(&[("api", 5), ("daily", 9), ("login", 1)]);
    let both = limiter.enforcer("api").unwrap().and("daily").unwrap();
    let app = routes().layer(RateLimitLayer::new(RateLimit::new(both).cost(2)));
    assert_eq!(get(&app, "/login/alice").status(), 200);
    assert_eq!([left(&limiter, "api", CLIENT), left(&limiter, "daily", CLIENT)], [5, 9]);
    assert_eq!(get(&app, "/plain").status(), 200);
    assert_eq!([left(&limiter, "api", CLIENT), left(&limiter, "daily", CLIENT)], [3, 7]);
}

#[test]
fn shadow_mode_layer_is_not_refunded() {
    let shadow = Limit::new(quota(1)).shadow(true);
    let limiter = builder().limit("api", shadow).limit("login", quota(9)).build().unwrap();
    let app = layered(&limiter, "api", routes());
    assert_eq!(get(&app, "/plain").status(), 200);
    assert_eq!(left(&limiter, "api", CLIENT), 0);
    assert_eq!(get(&app, "/login/alice").status(), 200);
    assert_eq!(left(&limiter, "api", CLIENT), 0);

    // The layer alone is in shadow mode.
    let limiter = self::limiter(&[("api", 1), ("daily", 9), ("login", 9)]);
    let both = limiter.enforcer("daily").unwrap().and("api").unwrap().shadow(true);
    let app = routes().layer(RateLimitLayer::new(both));
    assert_eq!(get(&app, "/plain").status(), 200);
    assert_eq!(get(&app, "/login/alice").status(), 200);
    assert_eq!([left(&limiter, "api", CLIENT), left(&limiter, "daily", CLIENT)], [0, 8]);
}

#[test]
fn replaced_layer_charges_nothing_by_outcome() {
    let limiter = limiter(&[("api", 5), ("login", 9)]);
    let rate_limit = RateLimit::new(limiter.enforcer("api").unwrap()).charge_when(|_, _| true);
    let app = routes().layer(RateLimitLayer::new(rate_limit));
    assert_eq!(get(&app, "/plain").status(), 200);
    assert_eq!(left(&limiter, "api", CLIENT), 4);
    let admitted = get(&app, "/login/alice");
    assert!(header(&admitted, "ratelimit").starts_with("\"login\";r=8;"));
    assert_eq!(left(&limiter, "api", CLIENT), 4);
}

#[test]
fn attribute_and_layer_can_share_limit_and_key() {
    #[limit("api", key = CLIENT)]
    async fn same() -> Result<(), LimitError> {
        Ok(())
    }
    let limiter = limiter(&[("api", 1)]);
    let app = layered(&limiter, "api", Router::new().route("/", on_get(same)));
    assert_eq!(get(&app, "/").status(), 200);
    assert_eq!(left(&limiter, "api", CLIENT), 0);
}

#[test]
fn skipped_handler_uses_the_layers_limiter_and_settings() {
    let limiter = limiter(&[("api", 1), ("login", 2)]);
    let rate_limit = RateLimit::new(limiter.enforcer("api").unwrap())
        .headers(LimitHeaders::new([HeaderStyle::Draft03]))
        .skip(|head| head.uri().path().starts_with("/login"));
    let app = routes().layer(RateLimitLayer::new(rate_limit));
    assert_eq!(get(&app, "/plain").status(), 200);
    assert_eq!(get(&app, "/plain").status(), 429);
    // The layer's limit is exhausted, and the request still reaches this handler.
    assert_eq!(header(&get(&app, "/login/alice"), "ratelimit-remaining"), "1");
    assert_eq!(header(&get(&app, "/login/alice"), "ratelimit-remaining"), "0");
    let denied = get(&app, "/login/alice");
    assert_eq!(denied.status(), 429);
    assert_eq!(header(&denied, "ratelimit-remaining"), "0");
    assert_eq!(header(&denied, "ratelimit"), "");
}

#[test]
fn skipped_handlers_deny_list_sees_the_client_address() {
    let limiter = builder().limit("api", quota(9)).limit("login", quota(9)).deny("login", [CLIENT]).unwrap();
    let limiter = limiter.build().unwrap();
    let rate_limit =
        RateLimit::new(limiter.enforcer("api").unwrap()).skip(|head| head.uri().path().starts_with("/login"));
    let app = routes().layer(RateLimitLayer::new(rate_limit));
    assert_eq!(get(&app, "/login/alice").status(), 403);
}

#[test]
fn nothing_is_refunded_after_replenishment() {
    /// A handler that starts a while after the layer has decided, like one that waits for a body.
    async fn late(path: Path<String>) -> Result<String, LimitError> {
        let start = SystemClock.now();
        while SystemClock.now().since(start) < millis(2) {
            yield_now().await;
        }
        login(path).await
    }
    let window = |period| Quota::fixed_window(9, period).unwrap();
    let limits = builder().limit("short", window(millis(1))).limit("long", window(minutes(1)));
    let limiter = limits.limit("login", quota(9)).build().unwrap();
    for (limit, expected) in [("short", 8), ("long", 9)] {
        let app = layered(&limiter, limit, Router::new().route("/late/{user}", on_get(late)));
        assert_eq!(get(&app, "/late/alice").status(), 200);
        assert_eq!(left(&limiter, limit, CLIENT), expected, "{limit}");
    }
}

#[test]
fn denial_hides_only_the_headers_of_the_nearest_layer() {
    let limiter = limiter(&[("outer", 9), ("inner", 9), ("login", 1)]);
    let app = layered(&limiter, "outer", layered(&limiter, "inner", routes()));
    get(&app, "/login/alice");
    let denied = get(&app, "/login/alice");
    let headers: Vec<_> = denied.headers().get_all("ratelimit").iter().map(|value| value.to_str().unwrap()).collect();
    assert!(
        matches!(headers[..], [login, outer] if login.starts_with("\"login\";r=0") && outer.starts_with("\"outer\";r=7")),
        "{headers:?}"
    );
}

#[test]
fn denial_uses_the_layers_response_and_hooks() {
    let limiter = builder().limit("api", quota(9)).limit("login", quota(9)).build().unwrap();
    // The address is not in the key, but the layer knows it.
    limiter.replace("login", Limit::new(quota(9)).deny([CLIENT]).unwrap()).unwrap();
    let hook_calls = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&hook_calls);
    let enforcer = limiter.enforcer("api").unwrap().on_limited(move |_, _| {
        count.fetch_add(1, Ordering::SeqCst);
    });
    let rate_limit = RateLimit::new(enforcer).map_response(|_, mut response| {
        response.headers_mut().insert("x-answered-by", "layer".parse().unwrap());
        response
    });
    let app = routes().layer(RateLimitLayer::new(rate_limit));
    let denied = get(&app, "/login/alice");
    assert_eq!(denied.status(), 403);
    assert_eq!(header(&denied, "x-answered-by"), "layer");
    assert_eq!(hook_calls.load(Ordering::SeqCst), 1);
}

/// Returns the limit headers of a response, joined.
fn joined_limit_headers(response: &Response) -> String {
    let fields = response.headers().get_all("ratelimit").iter();
    fields.map(|value| value.to_str().unwrap()).collect::<Vec<_>>().join(", ")
}

#[test]
fn function_with_also_counts_in_addition() {
    let limiter = limiter(&[("api", 9), ("mail", 1)]);
    let app = layered(&limiter, "api", routes());
    let admitted = get(&app, "/remind/alice");
    assert_eq!(admitted.status(), 200);
    assert!(header(&admitted, "ratelimit").starts_with("\"api\";r=8;"));
    assert_eq!([left(&limiter, "api", CLIENT), left(&limiter, "mail", "alice")], [8, 0]);

    // The headers describe the denying limit, and the layer's.
    let denied = get(&app, "/remind/alice");
    assert_eq!(denied.status(), 429);
    let headers = joined_limit_headers(&denied);
    assert!(headers.starts_with("\"mail\";r=0;") && headers.contains("\"api\";r=7;"), "{headers}");
    assert_eq!(left(&limiter, "api", CLIENT), 7);

    // Unless the handler ignores the error.
    let forgiven = get(&app, "/forgiving/alice");
    assert!(header(&forgiven, "ratelimit").starts_with("\"api\";r=6;"));
    assert_eq!(header(&forgiven, "retry-after"), "");
    assert_eq!(text(forgiven), "alice true");
}

#[test]
fn first_attribute_replaces_the_layer_and_others_add() {
    let limiter = limiter(&[("api", 9), ("login", 9), ("mail", 9)]);
    let app = layered(&limiter, "api", routes());
    let admitted = get(&app, "/register/alice");
    assert!(header(&admitted, "ratelimit").starts_with("\"login\";r=8;"));
    assert_eq!(["login", "mail"].map(|limit| left(&limiter, limit, "alice")), [8, 7]);
    assert_eq!(left(&limiter, "api", CLIENT), 9);

    // If one of the others denies, the headers describe both.
    let limiter = self::limiter(&[("api", 9), ("login", 9), ("mail", 1)]);
    let denied = get(&layered(&limiter, "api", routes()), "/register/alice");
    let headers = joined_limit_headers(&denied);
    assert_eq!(denied.status(), 429);
    assert!(
        headers.starts_with("\"mail\";r=0;") && headers.contains("\"login\";r=8;") && !headers.contains("api"),
        "{headers}"
    );
}

#[test]
fn attribute_replaces_the_nearest_of_two_layers() {
    let limiter = limiter(&[("outer", 9), ("inner", 9), ("login", 9)]);
    let app = layered(&limiter, "outer", layered(&limiter, "inner", routes()));
    assert_eq!(get(&app, "/login/alice").status(), 200);
    assert_eq!(["outer", "inner"].map(|limit| left(&limiter, limit, CLIENT)), [8, 9]);
    assert_eq!(get(&app, "/plain").status(), 200);
    assert_eq!(["outer", "inner"].map(|limit| left(&limiter, limit, CLIENT)), [7, 8]);
}

#[test]
fn requests_on_one_thread_do_not_mix() {
    #[limit("login", key = user)]
    async fn slow(Path(user): Path<String>) -> Result<String, LimitError> {
        yield_now().await;
        Ok(user)
    }
    let limiter = limiter(&[("api", 9), ("login", 9)]);
    let routes = Router::new().route("/slow/{user}", on_get(slow)).route("/slow", on_get(yield_now));
    let app = layered(&limiter, "api", routes);
    let ask = |path: &str| {
        let mut request = Request::get(path).body(Body::empty()).unwrap();
        request.extensions_mut().insert(PeerAddr(CLIENT.parse().unwrap()));
        app.clone().call(request)
    };
    let (first, second, third) = (ask("/slow/alice"), ask("/slow"), ask("/slow/bob"));
    let all = block_on(async { tokio::join!(first, second, third) });
    let said = [all.0, all.1, all.2].map(|response| header(&response.unwrap(), "ratelimit")[..11].to_owned());
    assert_eq!(said, ["\"login\";r=8", "\"api\";r=8;t", "\"login\";r=8"]);
    assert_eq!(left(&limiter, "api", CLIENT), 8);
}

#[test]
fn panic_leaves_no_layer_behind() {
    let limiter = limiter(&[("api", 9), ("login", 9), ("mail", 9)]);
    async fn panics() -> &'static str {
        panic!("on purpose")
    }
    let app = layered(&limiter, "api", Router::new().route("/", on_get(panics)));
    assert!(catch_unwind(AssertUnwindSafe(|| get(&app, "/"))).is_err());
    // Had the layer stayed, this would refund its units and use its limiter.
    let error = block_on(mail_without_layer("alice")).unwrap_err();
    assert!(error.outcome().error().is_some());
    assert_eq!(left(&limiter, "api", CLIENT), 8);
}

#[limit("only the layer's limiter would know it", key = user)]
async fn mail_without_layer(user: &str) -> Result<(), LimitError> {
    let _ = user;
    Ok(())
}
