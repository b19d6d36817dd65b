//! Permits: a request is in flight until the last byte of its response, and its permit is released exactly once.

use tidegate::Limit;
use tidegate::concurrency::{Concurrency, PerKey};
use tidegate::enforce::ConcurrencyGuards;
use tidegate::http::{Gate, RateLimit};

use super::fixtures::{DONE, DROPPED, Watched, api_limiter, builder, window};
use super::http_client::{Client, get};
use super::{Adapter, App};
use crate::Applicability;

fn guarded(watched: &Watched) -> App {
    App::new(Gate::new(RateLimit::unlimited()).guards(watched.pool.clone()))
}

/// A body that is there at once gives its permit back with it, on a connection that stays.
pub fn a_full_body_gives_its_permit_back<A: Adapter>() -> Applicability {
    let watched = Watched::new(1);
    let mut client = Client::connect(guarded(&watched).start::<A>());
    for _ in 0..3 {
        let reply = client.get("/", &[]);
        assert_eq!((reply.status, &*reply.body, reply.header("content-length").as_deref()), (200, "ok", Some("2")));
        assert_eq!(watched.next_end(|| {}), DONE);
    }
    watched.assert_no_other_end();
    Applicability::Ran
}

/// What is asked by HEAD has no body that could be dropped: it is done with its head.
pub fn an_answered_head_gives_its_permit_back<A: Adapter>() -> Applicability {
    let watched = Watched::new(1);
    let mut client = Client::connect(guarded(&watched).start::<A>());
    let status = client.head("/").status;
    if status == 404 || status == 405 {
        assert_eq!(watched.pool.in_flight(), 0);
        return Applicability::NotApplicable("its page is for GET alone");
    }
    assert_eq!(status, 200);
    assert_eq!(watched.next_end(|| {}), DONE);
    watched.assert_no_other_end();
    Applicability::Ran
}

/// A body that comes in pieces holds its permit until the last of them.
pub fn a_streamed_body_holds_its_permit_until_its_end<A: Adapter>() -> Applicability {
    if !A::STREAMS {
        return Applicability::NotApplicable("it does not stream");
    }
    let watched = Watched::new(1);
    let app = guarded(&watched);
    let address = app.start::<A>();
    let mut client = Client::connect(address);
    app.writer.send("some").expect("a body");
    assert_eq!(client.begin("/stream", &[]).status, 200);
    for (piece, next) in [("some", "more"), ("more", "")] {
        assert_eq!((client.piece().as_deref(), watched.pool.in_flight()), (Some(piece), 1));
        app.writer.send(next).expect("a body");
    }
    assert_eq!(client.piece(), None);
    assert_eq!(watched.next_end(|| {}), DONE);
    drop(client);
    // There is room for the next.
    assert_eq!(get(address, "/", &[]).status, 200);
    assert_eq!(watched.next_end(|| {}), DONE);
    watched.assert_no_other_end();
    Applicability::Ran
}

/// A client that hangs up in the middle of a body gives its permit back, and the work was wasted.
pub fn a_client_that_hangs_up_gives_its_permit_back<A: Adapter>() -> Applicability {
    if !A::STREAMS {
        return Applicability::NotApplicable("it does not stream");
    }
    let watched = Watched::new(1);
    let app = guarded(&watched);
    let address = app.start::<A>();
    let mut client = Client::connect(address);
    app.writer.send("some").expect("a body");
    assert_eq!(client.begin("/stream", &[]).status, 200);
    assert_eq!((client.piece().as_deref(), watched.pool.in_flight()), (Some("some"), 1));
    drop(client);
    // A server has to write something to notice.
    let write = || {
        let _ = app.writer.send("more");
    };
    assert_eq!(watched.next_end(write), DROPPED);
    assert_eq!(get(address, "/", &[]).status, 200);
    assert_eq!(watched.next_end(|| {}), DONE);
    watched.assert_no_other_end();
    Applicability::Ran
}

/// Whom there is no room for is turned away with 503, as it is nothing that it has done.
pub fn a_request_without_a_permit_is_turned_away<A: Adapter>() -> Applicability {
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

/// Too many of one client is 429, as it can do something about it.
pub fn a_key_has_permits_of_its_own<A: Adapter>() -> Applicability {
    if !A::STREAMS {
        return Applicability::NotApplicable("it does not stream");
    }
    let app = App::new(Gate::new(RateLimit::unlimited()).guards(ConcurrencyGuards::new().and(PerKey::new(1))));
    let address = app.start::<A>();
    let mut client = Client::connect(address);
    app.writer.send("some").expect("a body");
    assert_eq!(client.begin("/stream", &[]).status, 200);
    assert_eq!(client.piece().as_deref(), Some("some"));
    let reply = get(address, "/", &[]);
    assert_eq!((reply.status, &reply.problem()["violated-policies"]), (429, &serde_json::json!(["concurrency"])));
    Applicability::Ran
}

/// Whom a limit turns away was let in for nothing: its permit is back, and a controller learns nothing from it.
pub fn limited_request_is_no_sample<A: Adapter>() -> Applicability {
    let watched = Watched::new(1);
    let address =
        App::new(Gate::new(api_limiter(1).enforcer("api").unwrap()).guards(watched.pool.clone())).start::<A>();
    assert_eq!(get(address, "/", &[]).status, 200);
    assert_eq!(watched.next_end(|| {}), DONE);
    for _ in 0..3 {
        assert_eq!((get(address, "/", &[]).status, watched.pool.in_flight()), (429, 0));
    }
    watched.assert_no_other_end();
    Applicability::Ran
}

/// Who is on a deny list does not get as far as the guards.
pub fn denied_client_takes_no_permit<A: Adapter>() -> Applicability {
    let pool = Concurrency::fixed(1);
    let limit = Limit::new(window(5)).deny(["127.0.0.0/8"]).expect("a network");
    let limiter = builder().limit("api", limit).build().expect("a limiter");
    let address = App::new(Gate::new(limiter.enforcer("api").unwrap()).guards(pool.clone())).start::<A>();
    let _taken = pool.try_acquire().expect("room");
    assert_eq!(get(address, "/", &[]).status, 403);
    Applicability::Ran
}

/// A response that says so tells that the work was wasted.
pub fn dropped_if_reports_dropped_work<A: Adapter>() -> Applicability {
    let watched = Watched::new(1);
    let gate = Gate::new(RateLimit::unlimited()).guards(watched.pool.clone()).dropped_if(|status| status == 401);
    let address = App::new(gate).start::<A>();
    for (path, end) in [("/", DONE), ("/fails", DROPPED), ("/", DONE)] {
        get(address, path, &[]);
        assert_eq!(watched.next_end(|| {}), end, "{path}");
    }
    watched.assert_no_other_end();
    Applicability::Ran
}
