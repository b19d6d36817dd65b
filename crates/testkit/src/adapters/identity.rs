//! Cases about keys: which client a request is counted under.

use tidegate::Limit;
use tidegate::http::{ClientAddress, Gate, HeaderName, RateLimit, RequestHead, TrustProxy, keys};

use super::fixtures::{EventLog, api_limiter, limiter_builder, per_minute};
use super::http_client::get;
use super::{Adapter, App};
use crate::Applicability;

const FORWARDED: &str = "x-forwarded-for";

/// The gate receives the method, path, query, headers and peer of the request.
pub fn gate_receives_the_request_head<A: Adapter>() -> Applicability {
    let notes = EventLog::default();
    let seen = notes.clone();
    let limits = RateLimit::new(api_limiter(2).enforcer("api").unwrap()).skip(move |head: &RequestHead<'_>| {
        let values = head.headers().get_all("x-several").iter().map(|value| value.to_str().unwrap_or_default());
        let values: Vec<_> = values.flat_map(|value| value.split(", ")).collect();
        seen.add(format!(
            "{} {} {values:?} {:?}",
            head.method(),
            head.uri().path_and_query().map_or("", |uri| uri.as_str()),
            head.peer()
        ));
        false
    });
    let address = App::new(limits.into()).start::<A>();
    assert_eq!(get(address, "/?a=b", &[("X-Several", "one"), ("x-several", "two")]).status, 200);
    let notes = notes.take();
    let [note] = &*notes else { panic!("asked once: {notes:?}") };
    assert_eq!(note, r#"GET /?a=b ["one", "two"] Some(127.0.0.1)"#);
    Applicability::Ran
}

/// A client cannot choose its own address.
pub fn forged_address_is_ignored<A: Adapter>() -> Applicability {
    let address = App::new(Gate::new(api_limiter(2).enforcer("api").unwrap())).start::<A>();
    for (client, status) in [("192.0.2.1", 200), ("192.0.2.2", 200), ("192.0.2.3", 429)] {
        let forged = [(FORWARDED, client), ("forwarded", &*format!("for={client}")), ("x-real-ip", client)];
        assert_eq!(get(address, "/", &forged).status, status, "{client}");
    }
    Applicability::Ran
}

/// A trusted proxy names the client. A client before the proxy cannot.
pub fn trusted_proxy_names_the_client<A: Adapter>() -> Applicability {
    let trust = TrustProxy::networks(["127.0.0.0/8"]).expect("a network");
    let limits =
        RateLimit::new(api_limiter(1).enforcer("api").unwrap()).client_address(ClientAddress::new().trust(trust));
    let address = App::new(limits.into()).start::<A>();
    for (client, status) in [("192.0.2.1", 200), ("192.0.2.2", 200), ("192.0.2.1", 429), ("192.0.2.3, 192.0.2.2", 429)]
    {
        assert_eq!(get(address, "/", &[(FORWARDED, client)]).status, status, "{client}");
    }
    Applicability::Ran
}

/// A header is the key. A request without the header is counted under its address.
pub fn header_can_be_the_key<A: Adapter>() -> Applicability {
    let limits =
        RateLimit::new(api_limiter(1).enforcer("api").unwrap()).key(keys::header(HeaderName::from_static("x-user")));
    let address = App::new(limits.into()).start::<A>();
    for (user, status) in [("alice", 200), ("bob", 200), ("alice", 429)] {
        assert_eq!(get(address, "/", &[("x-user", user)]).status, status, "{user}");
    }
    for status in [200, 429] {
        assert_eq!(get(address, "/", &[]).status, status);
    }
    Applicability::Ran
}

/// All paths of one route are one key. Paths of another route are not.
pub fn route_can_be_the_key<A: Adapter>() -> Applicability {
    if !A::ROUTES {
        return Applicability::NotApplicable("it knows no templates of routes");
    }
    let limits = RateLimit::new(api_limiter(1).enforcer("api").unwrap()).key(keys::route());
    let address = App::new(limits.into()).start::<A>();
    for (path, status) in [("/users/1", 200), ("/users/2", 429), ("/", 200), ("/", 429)] {
        assert_eq!(get(address, path, &[]).status, status, "{path}");
    }
    Applicability::Ran
}

/// A skipped request is served without limit headers and counted nowhere.
pub fn skipped_request_is_not_counted<A: Adapter>() -> Applicability {
    let limits =
        RateLimit::new(api_limiter(1).enforcer("api").unwrap()).skip(|head| head.headers().contains_key("x-health"));
    let address = App::new(limits.into()).start::<A>();
    for _ in 0..3 {
        let reply = get(address, "/", &[("x-health", "1")]);
        assert_eq!((reply.status, &*reply.body, reply.limit_headers()), (200, "ok", vec![]));
    }
    assert_eq!(get(address, "/", &[]).status, 200);
    assert_eq!(get(address, "/", &[]).status, 429);
    Applicability::Ran
}

/// A client on a deny list gets 403 without a retry time.
pub fn denied_client_is_forbidden<A: Adapter>() -> Applicability {
    let limit = Limit::new(per_minute(5)).deny(["127.0.0.0/8"]).expect("a network");
    let limiter = limiter_builder().limit("api", limit).build().expect("a limiter");
    let app = App::new(Gate::new(limiter.enforcer("api").unwrap()));
    let reply = get(app.start::<A>(), "/", &[]);
    assert_eq!((reply.status, reply.limit_headers(), app.served()), (403, vec![], 0));
    assert_eq!(reply.problem()["retryable"], false);
    Applicability::Ran
}
