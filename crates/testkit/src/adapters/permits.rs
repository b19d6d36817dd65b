//! Cases about permits: a request is in flight until the last byte of its response, and its permit is released exactly once.

use tidegate::Limit;
use tidegate::concurrency::{Concurrency, PerKey};
use tidegate::enforce::ConcurrencyGuards;
use tidegate::http::{Gate, RateLimit};

use super::fixtures::{COMPLETED, DROPPED, ObservedPool, api_limiter, limiter_builder, per_minute};
use super::http_client::{Client, get};
use super::{Adapter, App};
use crate::Applicability;

fn guarded_app(observed: &ObservedPool) -> App {
    App::new(Gate::new(RateLimit::unlimited()).guards(observed.pool.clone()))
}

/// A full body releases its permit at its end, on a connection that stays open.
pub fn full_body_releases_its_permit<A: Adapter>() -> Applicability {
    let observed = ObservedPool::new(1);
    let mut client = Client::connect(guarded_app(&observed).start::<A>());
    for _ in 0..3 {
        let reply = client.get("/", &[]);
        assert_eq!((reply.status, &*reply.body, reply.header("content-length").as_deref()), (200, "ok", Some("2")));
        assert_eq!(observed.next_end(|| {}), COMPLETED);
    }
    observed.assert_all_ended();
    Applicability::Ran
}

/// A response to HEAD has no body that could be dropped, so it is complete with its head.
pub fn head_response_releases_its_permit<A: Adapter>() -> Applicability {
    let observed = ObservedPool::new(1);
    let mut client = Client::connect(guarded_app(&observed).start::<A>());
    let status = client.head("/").status;
    if status == 404 || status == 405 {
        assert_eq!(observed.pool.in_flight(), 0);
        return Applicability::NotApplicable("its page is for GET alone");
    }
    assert_eq!(status, 200);
    assert_eq!(observed.next_end(|| {}), COMPLETED);
    observed.assert_all_ended();
    Applicability::Ran
}

/// A body in chunks holds its permit until the last chunk.
pub fn streamed_body_holds_its_permit_until_its_end<A: Adapter>() -> Applicability {
    if !A::STREAMS {
        return Applicability::NotApplicable("it does not stream");
    }
    let observed = ObservedPool::new(1);
    let app = guarded_app(&observed);
    let address = app.start::<A>();
    let mut client = Client::connect(address);
    app.writer.send("some").expect("a body");
    assert_eq!(client.get_head("/stream", &[]).status, 200);
    for (chunk, next) in [("some", "more"), ("more", "")] {
        assert_eq!((client.chunk().as_deref(), observed.pool.in_flight()), (Some(chunk), 1));
        app.writer.send(next).expect("a body");
    }
    assert_eq!(client.chunk(), None);
    assert_eq!(observed.next_end(|| {}), COMPLETED);
    drop(client);
    // There is room for the next request.
    assert_eq!(get(address, "/", &[]).status, 200);
    assert_eq!(observed.next_end(|| {}), COMPLETED);
    observed.assert_all_ended();
    Applicability::Ran
}

/// A client that disconnects in the middle of a body releases its permit. The work counts as dropped.
pub fn disconnect_releases_the_permit<A: Adapter>() -> Applicability {
    if !A::STREAMS {
        return Applicability::NotApplicable("it does not stream");
    }
    let observed = ObservedPool::new(1);
    let app = guarded_app(&observed);
    let address = app.start::<A>();
    let mut client = Client::connect(address);
    app.writer.send("some").expect("a body");
    assert_eq!(client.get_head("/stream", &[]).status, 200);
    assert_eq!((client.chunk().as_deref(), observed.pool.in_flight()), (Some("some"), 1));
    drop(client);
    // A server notices a disconnect only when it writes.
    let write = || {
        let _ = app.writer.send("more");
    };
    assert_eq!(observed.next_end(write), DROPPED);
    assert_eq!(get(address, "/", &[]).status, 200);
    assert_eq!(observed.next_end(|| {}), COMPLETED);
    observed.assert_all_ended();
    Applicability::Ran
}

/// A request without a free permit is rejected with 503, because the client is not the cause.
pub fn request_without_permit_is_rejected<A: Adapter>() -> Applicability {
    let pool = Concurrency::fixed(1);
    let app = App::new(Gate::new(RateLimit::unlimited()).guards(pool.clone()));
    let address = app.start::<A>();
    let taken = pool.try_acquire().expect("room");
    let reply = get(address, "/", &[]);
    assert_eq!((reply.status, app.served()), (503, 0));
    assert!(reply.header("retry-after").is_some() && reply.problem()["retryable"] == true, "{reply:?}");
    drop(taken);
    assert_eq!(get(address, "/", &[]).status, 200);
    Applicability::Ran
}

/// Too many requests of one client in flight get 429, because the client is the cause.
pub fn each_key_has_separate_permits<A: Adapter>() -> Applicability {
    if !A::STREAMS {
        return Applicability::NotApplicable("it does not stream");
    }
    let app = App::new(Gate::new(RateLimit::unlimited()).guards(ConcurrencyGuards::new().and(PerKey::new(1))));
    let address = app.start::<A>();
    let mut client = Client::connect(address);
    app.writer.send("some").expect("a body");
    assert_eq!(client.get_head("/stream", &[]).status, 200);
    assert_eq!(client.chunk().as_deref(), Some("some"));
    let reply = get(address, "/", &[]);
    assert_eq!((reply.status, &reply.problem()["violated-policies"]), (429, &serde_json::json!(["concurrency"])));
    Applicability::Ran
}

/// A limited request releases its permit without a sample for the controller.
pub fn limited_request_records_no_sample<A: Adapter>() -> Applicability {
    let observed = ObservedPool::new(1);
    let address =
        App::new(Gate::new(api_limiter(1).enforcer("api").unwrap()).guards(observed.pool.clone())).start::<A>();
    assert_eq!(get(address, "/", &[]).status, 200);
    assert_eq!(observed.next_end(|| {}), COMPLETED);
    for _ in 0..3 {
        assert_eq!((get(address, "/", &[]).status, observed.pool.in_flight()), (429, 0));
    }
    observed.assert_all_ended();
    Applicability::Ran
}

/// A client on a deny list does not reach the guards.
pub fn denied_client_takes_no_permit<A: Adapter>() -> Applicability {
    let pool = Concurrency::fixed(1);
    let limit = Limit::new(per_minute(5)).deny(["127.0.0.0/8"]).expect("a network");
    let limiter = limiter_builder().limit("api", limit).build().expect("a limiter");
    let address = App::new(Gate::new(limiter.enforcer("api").unwrap()).guards(pool.clone())).start::<A>();
    let _taken = pool.try_acquire().expect("room");
    assert_eq!(get(address, "/", &[]).status, 403);
    Applicability::Ran
}

/// `dropped_if` reports the work of a matching response as dropped.
pub fn dropped_if_reports_dropped_work<A: Adapter>() -> Applicability {
    let observed = ObservedPool::new(1);
    let gate = Gate::new(RateLimit::unlimited()).guards(observed.pool.clone()).dropped_if(|status| status == 401);
    let address = App::new(gate).start::<A>();
    for (path, end) in [("/", COMPLETED), ("/fails", DROPPED), ("/", COMPLETED)] {
        get(address, path, &[]);
        assert_eq!(observed.next_end(|| {}), end, "{path}");
    }
    observed.assert_all_ended();
    Applicability::Ran
}
