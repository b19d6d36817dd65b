//! Which limits, whom they count, and what happens when there is too much.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use tidegate::enforce::Enforcer;
use tidegate::ws::{Context, Exceeded, KeyOf, Kind, Message, OnExceeded, RateLimit, Router, RouterBuilder, keys};
use tidegate::{Key, Limit, Limiter, MemoryStore, OnStoreError, Quota, StoreError, StoreErrorKind, minutes};
use tidegate_testkit::FaultyStore;

use crate::support::{Client, Counter, Over, Say, User, by_name, over_both, quota, say, serve, until};

over_both!(
    without_a_key_function_each_user_and_type_has_its_own,
    who_is_not_known_is_counted_by_address,
    each_user_whatever_the_type,
    each_connection_and_it_is_forgotten_at_its_end,
    each_type_of_everybody_together_and_all_unknown_ones_are_one,
    each_handler,
    each_room,
    each_address,
    a_connection_gives_back_nothing_that_is_not_its_own,
    several_limits_all_or_nothing,
    expensive_messages_cost_more,
    a_cost_of_nothing_is_refused,
    a_cost_that_can_never_be_had_is_not_worth_another_try,
    other_limits_for_those_who_pay,
    some_messages_are_left_alone,
    the_connection_is_closed_when_that_is_wanted,
    nothing_is_sent_when_that_is_wanted,
    a_hook_that_panics_is_contained_and_called_once,
    so_many_messages_in_a_life,
    whoever_is_on_a_deny_list_is_not_told_to_come_back,
    a_broken_store_is_what_the_limit_says,
    a_key_function_that_panics_is_internal,
    when_to_come_back_is_rounded_up,
    the_handler_sees_what_is_left,
);

/// Another type, with a handler's name of its own.
#[derive(Deserialize)]
struct Shout {}

impl Message for Shout {
    const TYPE: &'static str = "SHOUT";
    const HANDLER: &'static str = "SAY";
}

fn limiter(rate: u64) -> Limiter {
    Limiter::builder().limit("send", quota(rate)).build().unwrap()
}

fn builder(limits: RateLimit<User>) -> RouterBuilder<User> {
    Router::builder()
        .rate_limit(limits)
        .on(|context: Context<User>, say: Say| async move { context.send(&say) })
        .on(|context: Context<User>, _: Shout| async move { context.send(&Say { text: "SHOUTED".to_owned() }) })
}

fn keyed(rate: u64, key: KeyOf<User>) -> Router<User> {
    builder(RateLimit::new((&limiter(rate), "send")).key(key)).authenticate(by_name)
}

fn shout() -> serde_json::Value {
    json!({ "type": "SHOUT", "payload": {} })
}

impl Client {
    /// Whether a message goes through.
    async fn passes(&mut self, message: serde_json::Value) -> bool {
        self.send(message).await;
        let answer = self.next().await;
        match answer["payload"]["code"].as_str() {
            None => true,
            Some("RESOURCE_EXHAUSTED") => false,
            Some(_) => panic!("{answer}"),
        }
    }
}

async fn without_a_key_function_each_user_and_type_has_its_own(over: Over) {
    let router = builder(RateLimit::new((&limiter(1), "send"))).authenticate(by_name);
    let address = serve(over, &router).await;
    let mut alice = Client::connect_as(address, "alice").await;
    let mut also_alice = Client::connect_as(address, "alice").await;
    let mut bob = Client::connect_as(address, "bob").await;
    assert!(alice.passes(say("")).await);
    assert!(!also_alice.passes(say("")).await, "the same user on another connection");
    assert!(alice.passes(shout()).await, "another type");
    assert!(bob.passes(say("")).await, "another user");
}

async fn who_is_not_known_is_counted_by_address(over: Over) {
    let router = keyed(1, keys::user());
    let address = serve(over, &router).await;
    let mut somebody = Client::connect(address).await;
    // What a user is called cannot be the same as an address that stands in for one.
    let mut called_so = Client::connect_as(address, "127.0.0.1").await;
    assert!(somebody.passes(say("")).await);
    assert!(!Client::connect(address).await.passes(say("")).await, "x-forwarded-for is not believed");
    assert!(called_so.passes(say("")).await);
}

async fn each_user_whatever_the_type(over: Over) {
    let router = keyed(1, keys::user());
    let mut alice = Client::connect_as(serve(over, &router).await, "alice").await;
    assert!(alice.passes(say("")).await);
    assert!(!alice.passes(shout()).await);
}

async fn each_connection_and_it_is_forgotten_at_its_end(over: Over) {
    let store = Arc::new(MemoryStore::new());
    let limiter = Limiter::builder()
        .limit("user", quota(9))
        .limit("connection", quota(2))
        .limit("cut", Limit::new(quota(1_000)).shards(2).unwrap())
        .store(Arc::clone(&store))
        .build()
        .unwrap();
    let limits = RateLimit::new(Enforcer::new(&limiter, "user").and("connection").and("cut"));
    let by_type = keys::both(keys::connection(), keys::message_type());
    let router = builder(limits.key_each([keys::user(), by_type, keys::connection()])).authenticate(by_name);
    let address = serve(over, &router).await;
    let mut one = Client::connect_as(address, "alice").await;
    let mut other = Client::connect_as(address, "alice").await;
    assert!(one.passes(say("")).await && one.passes(say("")).await);
    assert!(!one.passes(say("")).await);
    assert!(one.passes(shout()).await);
    assert!(other.passes(say("")).await);
    let parts = store.stats().keys - 4;
    assert!((1..=2).contains(&parts), "one user, three of connections and types, and the parts of one budget");
    drop(one);
    until(|| router.connections() == 1).await;
    until(|| store.stats().keys == 2 + parts).await;
    drop(other);
    until(|| store.stats().keys == 1 + parts).await;
    let left = limiter.check("user", "alice").await.unwrap().remaining();
    assert_eq!(left, 5, "what is the user's stays");
}

async fn each_type_of_everybody_together_and_all_unknown_ones_are_one(over: Over) {
    let router = keyed(1, keys::message_type());
    let address = serve(over, &router).await;
    let (mut alice, mut bob) = (Client::connect_as(address, "alice").await, Client::connect_as(address, "bob").await);
    assert!(alice.passes(say("")).await);
    assert!(!bob.passes(say("")).await);
    assert!(bob.passes(shout()).await);
    alice.send(json!({ "type": "MADE UP" })).await;
    assert_eq!(alice.error().await, "UNIMPLEMENTED");
    bob.send(json!({ "type": "ALSO MADE UP" })).await;
    assert_eq!(bob.error().await, "RESOURCE_EXHAUSTED", "nobody can make up keys");
}

async fn each_handler(over: Over) {
    let router = keyed(1, keys::handler());
    let mut alice = Client::connect_as(serve(over, &router).await, "alice").await;
    assert!(alice.passes(say("")).await);
    assert!(!alice.passes(shout()).await, "types that say they share a handler share its budget");
}

async fn each_room(over: Over) {
    // The room is the first letter of the name, or none.
    let room = |user: &User| user.name.get(..1).map(|room| Key::from_parts([room]));
    let router = keyed(1, keys::room(room));
    let address = serve(over, &router).await;
    assert!(Client::connect_as(address, "a1").await.passes(say("")).await);
    assert!(!Client::connect_as(address, "a2").await.passes(say("")).await);
    assert!(Client::connect_as(address, "b1").await.passes(say("")).await);
    assert!(Client::connect(address).await.passes(say("")).await, "who is in no room, by address");
}

async fn each_address(over: Over) {
    let router = keyed(1, keys::address());
    let address = serve(over, &router).await;
    assert!(Client::connect_as(address, "alice").await.passes(say("")).await);
    assert!(!Client::connect_as(address, "bob").await.passes(say("")).await);
}

async fn a_connection_gives_back_nothing_that_is_not_its_own(over: Over) {
    // Nobody is in a room, so all are counted by address.
    let router = keyed(1, keys::both(keys::connection(), keys::room(|_: &User| None)));
    let address = serve(over, &router).await;
    let mut first = Client::connect(address).await;
    assert!(first.passes(say("")).await);
    drop(first);
    until(|| router.connections() == 0).await;
    assert!(!Client::connect(address).await.passes(say("")).await);
}

async fn several_limits_all_or_nothing(over: Over) {
    let limiter = Limiter::builder().limit("user", quota(2)).limit("everybody", quota(3)).build().unwrap();
    let limits = RateLimit::new(Enforcer::new(&limiter, "user").and("everybody"));
    let router = builder(limits.key_each([keys::user(), keys::global()])).authenticate(by_name);
    let address = serve(over, &router).await;
    let (mut alice, mut bob) = (Client::connect_as(address, "alice").await, Client::connect_as(address, "bob").await);
    assert!(alice.passes(say("")).await && alice.passes(say("")).await);
    alice.send(say("")).await;
    assert_eq!(alice.next().await["payload"]["details"], json!({ "observed": 1, "limit": 2, "policy": "user" }));
    assert!(bob.passes(say("")).await);
    bob.send(say("")).await;
    assert_eq!(bob.next().await["payload"]["details"], json!({ "observed": 1, "limit": 3, "policy": "everybody" }));
    assert_eq!(limiter.check("user", "bob").await.unwrap().remaining(), 1, "which took nothing from the user's");
}

async fn expensive_messages_cost_more(over: Over) {
    let limits = RateLimit::new((&limiter(5), "send")).key(keys::user());
    let limits = limits.cost_of(|ingress| if ingress.message_type() == Some("SHOUT") { 4 } else { 1 });
    let router = builder(limits).authenticate(by_name);
    let mut alice = Client::connect_as(serve(over, &router).await, "alice").await;
    assert!(alice.passes(shout()).await);
    assert!(!alice.passes(shout()).await);
    assert!(alice.passes(say("")).await);
    assert!(!alice.passes(say("")).await);
}

async fn a_cost_of_nothing_is_refused(over: Over) {
    let limiter = limiter(5);
    let limits = RateLimit::new((&limiter, "send")).key(keys::global()).cost_of(|_| 0);
    let router = builder(limits).authenticate(by_name);
    let mut client = Client::connect(serve(over, &router).await).await;
    client.send(say("")).await;
    assert_eq!(client.error().await, "INVALID_ARGUMENT");
    assert_eq!(limiter.check("send", Key::GLOBAL).await.unwrap().remaining(), 5);
}

async fn a_cost_that_can_never_be_had_is_not_worth_another_try(over: Over) {
    let seen = Arc::new(Mutex::new(Vec::<Exceeded>::new()));
    let noted = Arc::clone(&seen);
    let limits = RateLimit::new((&limiter(5), "send")).cost_of(|_| 6);
    let router = builder(limits)
        .on_limit_exceeded(move |exceeded| noted.lock().unwrap().push(exceeded.clone()))
        .authenticate(by_name);
    let mut client = Client::connect(serve(over, &router).await).await;
    client.send(say("")).await;
    let payload = client.next().await["payload"].take();
    let expected = json!({
        "code": "FAILED_PRECONDITION",
        "message": "Rate limit exceeded",
        "details": { "observed": 6, "limit": 5, "policy": "send" },
        "retryable": false,
    });
    assert_eq!(payload, expected);
    let seen = seen.lock().unwrap();
    assert_eq!((seen.len(), seen[0].kind, seen[0].retry_after), (1, Kind::Rate, None));
}

async fn other_limits_for_those_who_pay(over: Over) {
    let limiter = limiter(1);
    let (free, paid) = (Enforcer::new(&limiter, "send"), Enforcer::new(&limiter, "send").quota(quota(3)));
    let limits = RateLimit::pick(
        move |ingress: &tidegate::ws::Ingress<'_, User>| {
            if ingress.data().name == "alice" { paid.clone() } else { free.clone() }
        },
    );
    let router = builder(limits).authenticate(by_name);
    let address = serve(over, &router).await;
    let (mut alice, mut bob) = (Client::connect_as(address, "alice").await, Client::connect_as(address, "bob").await);
    for passes in [true, true, true, false] {
        assert_eq!(alice.passes(say("")).await, passes);
    }
    assert!(bob.passes(say("")).await);
    assert!(!bob.passes(say("")).await);
}

async fn some_messages_are_left_alone(over: Over) {
    let limits = RateLimit::new((&limiter(1), "send")).skip(|ingress| ingress.message_type() == Some("SHOUT"));
    let router = builder(limits).authenticate(by_name);
    let mut client = Client::connect(serve(over, &router).await).await;
    for _ in 0..5 {
        assert!(client.passes(shout()).await);
    }
    assert!(client.passes(say("")).await);
    assert!(!client.passes(say("")).await);
}

async fn the_connection_is_closed_when_that_is_wanted(over: Over) {
    for code in [tidegate::ws::close::TRY_AGAIN_LATER, 4_000] {
        let limits = RateLimit::new((&limiter(1), "send"));
        let router = builder(limits).on_rate_exceeded(OnExceeded::Close(code)).authenticate(by_name);
        let mut client = Client::connect(serve(over, &router).await).await;
        assert!(client.passes(say("")).await);
        client.send(say("")).await;
        assert_eq!(client.closed().await, Some(code));
        until(|| router.connections() == 0).await;
    }
}

async fn nothing_is_sent_when_that_is_wanted(over: Over) {
    let told = Counter::default();
    let counts = told.clone();
    let limits = RateLimit::new((&limiter(1), "send")).key(keys::message_type());
    let router = builder(limits)
        .on_rate_exceeded(OnExceeded::Custom)
        .on_limit_exceeded(move |_| counts.count())
        .authenticate(by_name);
    let mut client = Client::connect(serve(over, &router).await).await;
    for text in ["1", "2", "3"] {
        client.send(say(text)).await;
    }
    client.send(shout()).await;
    assert_eq!(client.next().await["payload"]["text"], "1");
    assert_eq!(client.next().await["payload"]["text"], "SHOUTED");
    assert_eq!(told.get(), 2);
}

async fn a_hook_that_panics_is_contained_and_called_once(over: Over) {
    let told = Counter::default();
    let counts = told.clone();
    let hook = move |exceeded: &Exceeded| {
        counts.count();
        panic!("{exceeded:?}");
    };
    let limits = RateLimit::new((&limiter(1), "send"));
    let router = builder(limits)
        .max_message(100)
        .on_payload_exceeded(OnExceeded::Send)
        .on_limit_exceeded(hook)
        .authenticate(by_name);
    let mut client = Client::connect(serve(over, &router).await).await;
    assert!(client.passes(say("")).await);
    assert!(!client.passes(say("")).await);
    assert_eq!(told.get(), 1);
    client.send(say(&"x".repeat(100))).await;
    assert_eq!(client.error().await, "FAILED_PRECONDITION");
    assert_eq!(told.get(), 2);
}

async fn so_many_messages_in_a_life(over: Over) {
    let seen = Arc::new(Mutex::new(Vec::<Exceeded>::new()));
    let noted = Arc::clone(&seen);
    let router = Router::<User>::builder()
        .on(|context: Context<User>, say: Say| async move { context.send(&say) })
        .max_messages(3)
        .on_limit_exceeded(move |exceeded| noted.lock().unwrap().push(exceeded.clone()))
        .authenticate(by_name);
    let mut client = Client::connect(serve(over, &router).await).await;
    for _ in 0..3 {
        assert!(client.passes(say("")).await);
    }
    client.send(say("")).await;
    assert_eq!(client.closed().await, Some(1013));
    let seen = seen.lock().unwrap();
    assert_eq!((seen.len(), seen[0].kind, seen[0].observed, seen[0].limit), (1, Kind::Messages, 4, 3));
}

async fn whoever_is_on_a_deny_list_is_not_told_to_come_back(over: Over) {
    let limiter =
        Limiter::builder().limit("send", Limit::new(quota(5)).deny(["127.0.0.0/8"]).unwrap()).build().unwrap();
    let router = builder(RateLimit::new((&limiter, "send")).key(keys::user())).authenticate(by_name);
    let mut client = Client::connect_as(serve(over, &router).await, "alice").await;
    client.send(say("")).await;
    let payload = client.next().await["payload"].take();
    assert_eq!((&payload["code"], &payload["retryable"]), (&json!("PERMISSION_DENIED"), &json!(false)));
    assert_eq!(payload.get("retryAfterMs"), None);
}

async fn a_broken_store_is_what_the_limit_says(over: Over) {
    for (policy, code) in [(OnStoreError::Open, None), (OnStoreError::Closed, Some("UNAVAILABLE"))] {
        let store = FaultyStore::new(MemoryStore::new());
        store.faults().fail(StoreError::new(StoreErrorKind::Unavailable, "it is down"));
        let limit = Limit::new(quota(5)).on_store_error(policy);
        let limiter = Limiter::builder().limit("send", limit).store(store).build().unwrap();
        let router = builder(RateLimit::new((&limiter, "send"))).authenticate(by_name);
        let mut client = Client::connect(serve(over, &router).await).await;
        client.send(say("")).await;
        assert_eq!(client.next().await["payload"]["code"].as_str(), code, "{policy:?}");
    }
    let told = Counter::default();
    let tells = told.clone();
    let router = builder(RateLimit::new((&limiter(5), "no such limit")));
    let router = router.on_error(move |_, _| tells.count()).authenticate(by_name);
    let mut client = Client::connect(serve(over, &router).await).await;
    client.send(say("")).await;
    assert_eq!(client.error().await, "INTERNAL", "no policy hides a mistake");
    assert_eq!(told.get(), 1);
}

async fn a_key_function_that_panics_is_internal(over: Over) {
    let key = keys::custom(|ingress: &tidegate::ws::Ingress<'_, User>| {
        assert_ne!(ingress.message_type(), Some("SHOUT"));
        Some(Key::GLOBAL)
    });
    let router = keyed(5, key);
    let mut client = Client::connect(serve(over, &router).await).await;
    client.send(shout()).await;
    assert_eq!(client.error().await, "INTERNAL");
    assert!(client.passes(say("")).await, "and the connection goes on");
}

async fn when_to_come_back_is_rounded_up(over: Over) {
    // A token every 20,000,000/3 ms, on a clock that stands still.
    let clock = tidegate::ManualClock::new(tidegate::Timestamp::from_millis(1_700_000_000_000));
    let store = MemoryStore::builder().clock(clock.clone()).build();
    let quota = Quota::token_bucket(3, Duration::from_secs(20_000)).unwrap().capacity(1).unwrap();
    let limiter = Limiter::builder().limit("send", quota).store(store).build().unwrap();
    let seen = Arc::new(Mutex::new(Vec::<Exceeded>::new()));
    let noted = Arc::clone(&seen);
    let router = builder(RateLimit::new((&limiter, "send")))
        .on_limit_exceeded(move |exceeded| noted.lock().unwrap().push(exceeded.clone()))
        .authenticate(by_name);
    let mut client = Client::connect(serve(over, &router).await).await;
    assert!(client.passes(say("")).await);
    client.send(say("")).await;
    let expected = json!({
        "code": "RESOURCE_EXHAUSTED",
        "message": "Rate limit exceeded",
        "details": { "observed": 1, "limit": 1, "policy": "send" },
        "retryable": true,
        "retryAfterMs": 6_666_667,
    });
    assert_eq!(client.next().await["payload"], expected);
    let wait = seen.lock().unwrap()[0].retry_after.unwrap();
    clock.advance(wait - Duration::from_micros(1));
    assert!(!client.passes(say("")).await, "a microsecond early is too early");
    clock.advance(Duration::from_micros(1));
    assert!(client.passes(say("")).await);
}

async fn the_handler_sees_what_is_left(over: Over) {
    let limiter = Limiter::builder().limit("send", Quota::fixed_window(3, minutes(60 * 24 * 300)).unwrap());
    let limiter = limiter.build().unwrap();
    let router = Router::<User>::builder()
        .rate_limit(RateLimit::new((&limiter, "send")))
        .on(|context: Context<User>, _: Say| async move {
            let left = context.outcome().unwrap().rulings()[0].decision().remaining();
            context.send(&Say { text: left.to_string() })
        })
        .authenticate(by_name);
    let mut client = Client::connect(serve(over, &router).await).await;
    for left in ["2", "1", "0"] {
        client.send(say("")).await;
        assert_eq!(client.next().await["payload"]["text"], left);
    }
}
