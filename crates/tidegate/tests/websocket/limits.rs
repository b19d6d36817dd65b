//! Rate limits: keys, costs, and the action when they are exceeded.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use tidegate::websocket::{
    Context, ExceededKind, KeyExtractor, LimitExceeded, Message, MessageRateLimit, OnExceeded, Router, RouterBuilder,
    keys,
};
use tidegate::{Key, Limit, Limiter, MemoryStore, OnStoreError, Quota, StoreError, StoreErrorKind, minutes};
use tidegate_testkit::FaultyStore;

use crate::support::{Client, Counter, Say, ServerKind, User, by_name, for_every_server, quota, say, serve, until};

for_every_server!(
    default_key_is_user_and_type,
    unknown_user_is_counted_by_address,
    user_key_is_shared_by_types,
    connection_key_is_reset_when_the_connection_closes,
    message_type_key_is_shared_by_users_and_unknown_types_are_one,
    handler_key_is_shared_by_its_types,
    room_key_is_shared_by_its_users,
    address_key_is_shared_by_users_of_an_address,
    closed_connection_resets_only_its_own_keys,
    several_limits_are_all_or_nothing,
    expensive_messages_cost_more,
    cost_of_zero_is_rejected,
    cost_above_the_capacity_is_not_retryable,
    limits_are_picked_by_user,
    skipped_messages_are_not_limited,
    close_action_closes_the_connection,
    custom_action_sends_nothing,
    panicking_hook_is_caught_and_called_once,
    messages_per_connection_are_bounded,
    denied_user_gets_no_retry_hint,
    broken_store_follows_the_failure_policy,
    panicking_key_function_is_internal,
    retry_hint_is_rounded_up,
    handler_sees_the_remaining_quota,
);

/// Another type, with its own handler name.
#[derive(Deserialize)]
struct Shout {}

impl Message for Shout {
    const TYPE: &'static str = "SHOUT";
    const HANDLER: &'static str = "SAY";
}

fn limiter(rate: u64) -> Limiter {
    Limiter::builder().limit("send", quota(rate)).build().unwrap()
}

fn builder(limits: MessageRateLimit<User>) -> RouterBuilder<User> {
    Router::builder()
        .rate_limit(limits)
        .on(|context: Context<User>, say: Say| async move { context.send(&say) })
        .on(|context: Context<User>, _: Shout| async move { context.send(&Say { text: "SHOUTED".to_owned() }) })
}

fn keyed(rate: u64, key: KeyExtractor<User>) -> Router<User> {
    builder(MessageRateLimit::new(limiter(rate).enforcer("send").unwrap()).key(key)).authenticate(by_name).unwrap()
}

fn shout() -> serde_json::Value {
    json!({ "type": "SHOUT", "payload": {} })
}

impl Client {
    /// Returns whether a message is admitted.
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

async fn default_key_is_user_and_type(server_kind: ServerKind) {
    let router = builder(MessageRateLimit::new(limiter(1).enforcer("send").unwrap())).authenticate(by_name).unwrap();
    let address = serve(server_kind, &router).await;
    let mut alice = Client::connect_as(address, "alice").await;
    let mut also_alice = Client::connect_as(address, "alice").await;
    let mut bob = Client::connect_as(address, "bob").await;
    assert!(alice.passes(say("")).await);
    assert!(!also_alice.passes(say("")).await, "the same user on another connection");
    assert!(alice.passes(shout()).await, "another type");
    assert!(bob.passes(say("")).await, "another user");
}

async fn unknown_user_is_counted_by_address(server_kind: ServerKind) {
    let router = keyed(1, keys::user());
    let address = serve(server_kind, &router).await;
    let mut somebody = Client::connect(address).await;
    // A user named like an address does not collide with a fallback key.
    let mut called_so = Client::connect_as(address, "127.0.0.1").await;
    assert!(somebody.passes(say("")).await);
    assert!(!Client::connect(address).await.passes(say("")).await, "x-forwarded-for is not believed");
    assert!(called_so.passes(say("")).await);
}

async fn user_key_is_shared_by_types(server_kind: ServerKind) {
    let router = keyed(1, keys::user());
    let mut alice = Client::connect_as(serve(server_kind, &router).await, "alice").await;
    assert!(alice.passes(say("")).await);
    assert!(!alice.passes(shout()).await);
}

async fn connection_key_is_reset_when_the_connection_closes(server_kind: ServerKind) {
    let store = Arc::new(MemoryStore::new());
    let limiter = Limiter::builder()
        .limit("user", quota(9))
        .limit("connection", quota(2))
        .limit("cut", Limit::new(quota(1_000)).shards(2).unwrap())
        .store(Arc::clone(&store))
        .build()
        .unwrap();
    let limits =
        MessageRateLimit::new(limiter.enforcer("user").unwrap().and("connection").unwrap().and("cut").unwrap());
    let by_type = keys::both(keys::connection(), keys::message_type());
    let router = builder(limits.key_each([keys::user(), by_type, keys::connection()])).authenticate(by_name).unwrap();
    let address = serve(server_kind, &router).await;
    let mut one = Client::connect_as(address, "alice").await;
    let mut other = Client::connect_as(address, "alice").await;
    assert!(one.passes(say("")).await && one.passes(say("")).await);
    assert!(!one.passes(say("")).await);
    assert!(one.passes(shout()).await);
    assert!(other.passes(say("")).await);
    let parts = store.stats().keys - 4;
    assert!((1..=2).contains(&parts), "one user, three of connections and types, and the parts of one budget");
    drop(one);
    until(|| router.connection_count() == 1).await;
    until(|| store.stats().keys == 2 + parts).await;
    drop(other);
    until(|| store.stats().keys == 1 + parts).await;
    let left = limiter.check("user", "alice").await.unwrap().remaining();
    assert_eq!(left, 5, "what is the user's stays");
}

async fn message_type_key_is_shared_by_users_and_unknown_types_are_one(server_kind: ServerKind) {
    let router = keyed(1, keys::message_type());
    let address = serve(server_kind, &router).await;
    let (mut alice, mut bob) = (Client::connect_as(address, "alice").await, Client::connect_as(address, "bob").await);
    assert!(alice.passes(say("")).await);
    assert!(!bob.passes(say("")).await);
    assert!(bob.passes(shout()).await);
    alice.send(json!({ "type": "MADE UP" })).await;
    assert_eq!(alice.error().await, "UNIMPLEMENTED");
    bob.send(json!({ "type": "ALSO MADE UP" })).await;
    assert_eq!(bob.error().await, "RESOURCE_EXHAUSTED", "unknown types share a key");
}

async fn handler_key_is_shared_by_its_types(server_kind: ServerKind) {
    let router = keyed(1, keys::handler());
    let mut alice = Client::connect_as(serve(server_kind, &router).await, "alice").await;
    assert!(alice.passes(say("")).await);
    assert!(!alice.passes(shout()).await, "types with one handler share its budget");
}

async fn room_key_is_shared_by_its_users(server_kind: ServerKind) {
    // The room is the first letter of the name.
    let room = |user: &User| user.name.get(..1).map(|room| Key::from_parts([room]));
    let router = keyed(1, keys::room(room));
    let address = serve(server_kind, &router).await;
    assert!(Client::connect_as(address, "a1").await.passes(say("")).await);
    assert!(!Client::connect_as(address, "a2").await.passes(say("")).await);
    assert!(Client::connect_as(address, "b1").await.passes(say("")).await);
    assert!(Client::connect(address).await.passes(say("")).await, "clients in no room are counted by address");
}

async fn address_key_is_shared_by_users_of_an_address(server_kind: ServerKind) {
    let router = keyed(1, keys::address());
    let address = serve(server_kind, &router).await;
    assert!(Client::connect_as(address, "alice").await.passes(say("")).await);
    assert!(!Client::connect_as(address, "bob").await.passes(say("")).await);
}

async fn closed_connection_resets_only_its_own_keys(server_kind: ServerKind) {
    // No user is in a room, so all are counted by address.
    let router = keyed(1, keys::both(keys::connection(), keys::room(|_: &User| None)));
    let address = serve(server_kind, &router).await;
    let mut first = Client::connect(address).await;
    assert!(first.passes(say("")).await);
    drop(first);
    until(|| router.connection_count() == 0).await;
    assert!(!Client::connect(address).await.passes(say("")).await);
}

async fn several_limits_are_all_or_nothing(server_kind: ServerKind) {
    let limiter = Limiter::builder().limit("user", quota(2)).limit("everybody", quota(3)).build().unwrap();
    let limits = MessageRateLimit::new(limiter.enforcer("user").unwrap().and("everybody").unwrap());
    let router = builder(limits.key_each([keys::user(), keys::global()])).authenticate(by_name).unwrap();
    let address = serve(server_kind, &router).await;
    let (mut alice, mut bob) = (Client::connect_as(address, "alice").await, Client::connect_as(address, "bob").await);
    assert!(alice.passes(say("")).await && alice.passes(say("")).await);
    alice.send(say("")).await;
    assert_eq!(alice.next().await["payload"]["details"], json!({ "observed": 1, "limit": 2, "policy": "user" }));
    assert!(bob.passes(say("")).await);
    bob.send(say("")).await;
    assert_eq!(bob.next().await["payload"]["details"], json!({ "observed": 1, "limit": 3, "policy": "everybody" }));
    assert_eq!(limiter.check("user", "bob").await.unwrap().remaining(), 1, "which took nothing from the user's");
}

async fn expensive_messages_cost_more(server_kind: ServerKind) {
    let limits = MessageRateLimit::new(limiter(5).enforcer("send").unwrap()).key(keys::user());
    let limits = limits.cost_of(|head| if head.message_type() == Some("SHOUT") { 4 } else { 1 });
    let router = builder(limits).authenticate(by_name).unwrap();
    let mut alice = Client::connect_as(serve(server_kind, &router).await, "alice").await;
    assert!(alice.passes(shout()).await);
    assert!(!alice.passes(shout()).await);
    assert!(alice.passes(say("")).await);
    assert!(!alice.passes(say("")).await);
}

async fn cost_of_zero_is_rejected(server_kind: ServerKind) {
    let limiter = limiter(5);
    let limits = MessageRateLimit::new(limiter.enforcer("send").unwrap()).key(keys::global()).cost_of(|_| 0);
    let router = builder(limits).authenticate(by_name).unwrap();
    let mut client = Client::connect(serve(server_kind, &router).await).await;
    client.send(say("")).await;
    assert_eq!(client.error().await, "INVALID_ARGUMENT");
    assert_eq!(limiter.check("send", Key::GLOBAL).await.unwrap().remaining(), 5);
}

async fn cost_above_the_capacity_is_not_retryable(server_kind: ServerKind) {
    let seen = Arc::new(Mutex::new(Vec::<LimitExceeded>::new()));
    let noted = Arc::clone(&seen);
    let limits = MessageRateLimit::new(limiter(5).enforcer("send").unwrap()).cost_of(|_| 6);
    let router = builder(limits)
        .on_limit_exceeded(move |exceeded| noted.lock().unwrap().push(exceeded.clone()))
        .authenticate(by_name)
        .unwrap();
    let mut client = Client::connect(serve(server_kind, &router).await).await;
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
    assert_eq!((seen.len(), seen[0].kind, seen[0].retry_after), (1, ExceededKind::Rate, None));
}

async fn limits_are_picked_by_user(server_kind: ServerKind) {
    let limiter = limiter(1);
    let (free, paid) = (limiter.enforcer("send").unwrap(), limiter.enforcer("send").unwrap().with_quota(quota(3)));
    let limits = MessageRateLimit::pick(
        move |head: &tidegate::websocket::MessageHead<'_, User>| {
            if head.data().name == "alice" { paid.clone() } else { free.clone() }
        },
    );
    let router = builder(limits).authenticate(by_name).unwrap();
    let address = serve(server_kind, &router).await;
    let (mut alice, mut bob) = (Client::connect_as(address, "alice").await, Client::connect_as(address, "bob").await);
    for passes in [true, true, true, false] {
        assert_eq!(alice.passes(say("")).await, passes);
    }
    assert!(bob.passes(say("")).await);
    assert!(!bob.passes(say("")).await);
}

async fn skipped_messages_are_not_limited(server_kind: ServerKind) {
    let limits =
        MessageRateLimit::new(limiter(1).enforcer("send").unwrap()).skip(|head| head.message_type() == Some("SHOUT"));
    let router = builder(limits).authenticate(by_name).unwrap();
    let mut client = Client::connect(serve(server_kind, &router).await).await;
    for _ in 0..5 {
        assert!(client.passes(shout()).await);
    }
    assert!(client.passes(say("")).await);
    assert!(!client.passes(say("")).await);
}

async fn close_action_closes_the_connection(server_kind: ServerKind) {
    for code in [tidegate::websocket::close_code::TRY_AGAIN_LATER, 4_000] {
        let limits = MessageRateLimit::new(limiter(1).enforcer("send").unwrap());
        let router = builder(limits).on_rate_exceeded(OnExceeded::Close(code)).authenticate(by_name).unwrap();
        let mut client = Client::connect(serve(server_kind, &router).await).await;
        assert!(client.passes(say("")).await);
        client.send(say("")).await;
        assert_eq!(client.closed().await, Some(code));
        until(|| router.connection_count() == 0).await;
    }
}

async fn custom_action_sends_nothing(server_kind: ServerKind) {
    let told = Counter::default();
    let counts = told.clone();
    let limits = MessageRateLimit::new(limiter(1).enforcer("send").unwrap()).key(keys::message_type());
    let router = builder(limits)
        .on_rate_exceeded(OnExceeded::Custom)
        .on_limit_exceeded(move |_| counts.count())
        .authenticate(by_name)
        .unwrap();
    let mut client = Client::connect(serve(server_kind, &router).await).await;
    for text in ["1", "2", "3"] {
        client.send(say(text)).await;
    }
    client.send(shout()).await;
    assert_eq!(client.next().await["payload"]["text"], "1");
    assert_eq!(client.next().await["payload"]["text"], "SHOUTED");
    assert_eq!(told.get(), 2);
}

async fn panicking_hook_is_caught_and_called_once(server_kind: ServerKind) {
    let told = Counter::default();
    let counts = told.clone();
    let hook = move |exceeded: &LimitExceeded| {
        counts.count();
        panic!("{exceeded:?}");
    };
    let limits = MessageRateLimit::new(limiter(1).enforcer("send").unwrap());
    let router = builder(limits)
        .max_message_bytes(100)
        .on_payload_exceeded(OnExceeded::Send)
        .on_limit_exceeded(hook)
        .authenticate(by_name)
        .unwrap();
    let mut client = Client::connect(serve(server_kind, &router).await).await;
    assert!(client.passes(say("")).await);
    assert!(!client.passes(say("")).await);
    assert_eq!(told.get(), 1);
    client.send(say(&"x".repeat(100))).await;
    assert_eq!(client.error().await, "FAILED_PRECONDITION");
    assert_eq!(told.get(), 2);
}

async fn messages_per_connection_are_bounded(server_kind: ServerKind) {
    let seen = Arc::new(Mutex::new(Vec::<LimitExceeded>::new()));
    let noted = Arc::clone(&seen);
    let router = Router::<User>::builder()
        .on(|context: Context<User>, say: Say| async move { context.send(&say) })
        .max_messages(3)
        .on_limit_exceeded(move |exceeded| noted.lock().unwrap().push(exceeded.clone()))
        .authenticate(by_name)
        .unwrap();
    let mut client = Client::connect(serve(server_kind, &router).await).await;
    for _ in 0..3 {
        assert!(client.passes(say("")).await);
    }
    client.send(say("")).await;
    assert_eq!(client.closed().await, Some(1013));
    let seen = seen.lock().unwrap();
    assert_eq!((seen.len(), seen[0].kind, seen[0].observed, seen[0].limit), (1, ExceededKind::Messages, 4, 3));
}

async fn denied_user_gets_no_retry_hint(server_kind: ServerKind) {
    let limiter =
        Limiter::builder().limit("send", Limit::new(quota(5)).deny(["127.0.0.0/8"]).unwrap()).build().unwrap();
    let router = builder(MessageRateLimit::new(limiter.enforcer("send").unwrap()).key(keys::user()))
        .authenticate(by_name)
        .unwrap();
    let mut client = Client::connect_as(serve(server_kind, &router).await, "alice").await;
    client.send(say("")).await;
    let payload = client.next().await["payload"].take();
    assert_eq!((&payload["code"], &payload["retryable"]), (&json!("PERMISSION_DENIED"), &json!(false)));
    assert_eq!(payload.get("retryAfterMs"), None);
}

async fn broken_store_follows_the_failure_policy(server_kind: ServerKind) {
    for (policy, code) in [(OnStoreError::Open, None), (OnStoreError::Closed, Some("UNAVAILABLE"))] {
        let store = FaultyStore::new(MemoryStore::new());
        store.faults().fail(StoreError::new(StoreErrorKind::Unavailable, "it is down"));
        let limit = Limit::new(quota(5)).on_store_error(policy);
        let limiter = Limiter::builder().limit("send", limit).store(store).build().unwrap();
        let router = builder(MessageRateLimit::new(limiter.enforcer("send").unwrap())).authenticate(by_name).unwrap();
        let mut client = Client::connect(serve(server_kind, &router).await).await;
        client.send(say("")).await;
        assert_eq!(client.next().await["payload"]["code"].as_str(), code, "{policy:?}");
    }
    let told = Counter::default();
    let tells = told.clone();
    let limiter = limiter(5);
    let removed = limiter.enforcer("send").unwrap();
    limiter.replace_all(Limiter::builder().limit("other", quota(5))).unwrap();
    let router = builder(MessageRateLimit::new(removed));
    let router = router.on_error(move |_, _| tells.count()).authenticate(by_name).unwrap();
    let mut client = Client::connect(serve(server_kind, &router).await).await;
    client.send(say("")).await;
    assert_eq!(client.error().await, "INTERNAL", "no policy hides a mistake");
    assert_eq!(told.get(), 1);
}

async fn panicking_key_function_is_internal(server_kind: ServerKind) {
    let key = keys::custom(|head: &tidegate::websocket::MessageHead<'_, User>| {
        assert_ne!(head.message_type(), Some("SHOUT"));
        Some(Key::GLOBAL)
    });
    let router = keyed(5, key);
    let mut client = Client::connect(serve(server_kind, &router).await).await;
    client.send(shout()).await;
    assert_eq!(client.error().await, "INTERNAL");
    assert!(client.passes(say("")).await, "and the connection goes on");
}

async fn retry_hint_is_rounded_up(server_kind: ServerKind) {
    // A token every 20,000,000/3 ms, on a manual clock.
    let clock = tidegate::ManualClock::new(tidegate::Timestamp::from_millis(1_700_000_000_000));
    let store = MemoryStore::builder().clock(clock.clone()).build();
    let quota = Quota::token_bucket(3, Duration::from_secs(20_000)).unwrap().capacity(1).unwrap();
    let limiter = Limiter::builder().limit("send", quota).store(store).build().unwrap();
    let seen = Arc::new(Mutex::new(Vec::<LimitExceeded>::new()));
    let noted = Arc::clone(&seen);
    let router = builder(MessageRateLimit::new(limiter.enforcer("send").unwrap()))
        .on_limit_exceeded(move |exceeded| noted.lock().unwrap().push(exceeded.clone()))
        .authenticate(by_name)
        .unwrap();
    let mut client = Client::connect(serve(server_kind, &router).await).await;
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

async fn handler_sees_the_remaining_quota(server_kind: ServerKind) {
    let limiter = Limiter::builder().limit("send", Quota::fixed_window(3, minutes(60 * 24 * 300)).unwrap());
    let limiter = limiter.build().unwrap();
    let router = Router::<User>::builder()
        .rate_limit(MessageRateLimit::new(limiter.enforcer("send").unwrap()))
        .on(|context: Context<User>, _: Say| async move {
            let left = context.outcome().unwrap().limit_decisions()[0].decision().remaining();
            context.send(&Say { text: left.to_string() })
        })
        .authenticate(by_name)
        .unwrap();
    let mut client = Client::connect(serve(server_kind, &router).await).await;
    for left in ["2", "1", "0"] {
        client.send(say("")).await;
        assert_eq!(client.next().await["payload"]["text"], left);
    }
}
