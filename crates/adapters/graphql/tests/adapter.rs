//! Limits for async-graphql's fields and query complexity.

use async_graphql::{EmptyMutation, EmptySubscription, Object, Request, Response, Schema};
use serde_json::{Value, json};
use tidegate::enforce::{Caller, Enforcer};
use tidegate::resilience::FallbackStore;
use tidegate::{
    Limit, Limiter, ManualClock, MemoryStore, OnStoreError, Quota, StoreError, StoreErrorKind, Timestamp, minutes,
};
use tidegate_graphql::{ComplexityLimit, FieldLimit};
use tidegate_testkit::FaultyStore;

struct Query;

#[Object]
impl Query {
    async fn version(&self) -> &str {
        "1"
    }

    #[graphql(complexity = 5, guard = "FieldLimit::new(\"search\")")]
    async fn search(&self) -> &str {
        "found"
    }

    #[graphql(guard = "FieldLimit::new(\"search\").cost(3)")]
    async fn costly(&self) -> &str {
        "found"
    }

    #[graphql(guard = "FieldLimit::new(\"serach\")")]
    async fn misspelt(&self) -> &str {
        "found"
    }
}

type Api = Schema<Query, EmptyMutation, EmptySubscription>;

fn limiter() -> Limiter {
    let store = MemoryStore::builder().clock(ManualClock::new(Timestamp::from_millis(1_800_000_000_000))).build();
    let window = |rate| Quota::fixed_window(rate, minutes(1)).unwrap();
    Limiter::builder().store(store).limit("complexity", window(8)).limit("search", window(2)).build().unwrap()
}

fn schema(limiter: Limiter) -> Api {
    Schema::build(Query, EmptyMutation, EmptySubscription).data(limiter).finish()
}

fn schema_with_complexity(enforcer: Enforcer) -> Api {
    let limiter = limiter();
    Schema::build(Query, EmptyMutation, EmptySubscription)
        .extension(ComplexityLimit::new(enforcer))
        .data(limiter)
        .finish()
}

async fn query(schema: &Api, user: &'static str, query: &str) -> Value {
    json_of(schema.execute(Request::new(query).data(Caller::new(user))).await)
}

fn json_of(response: Response) -> Value {
    serde_json::to_value(response).unwrap()
}

#[tokio::test]
async fn field_has_its_own_limit() {
    let schema = schema(limiter());
    for _ in 0..2 {
        assert_eq!(query(&schema, "alice", "{ search }").await["data"]["search"], "found");
    }
    let denied = query(&schema, "alice", "{ search }").await;
    let extensions = json!({
        "code": "RESOURCE_EXHAUSTED", "retryAfterMs": 60_000, "retryable": true, "violatedPolicies": ["search"],
    });
    let error = &denied["errors"][0];
    assert_eq!((&error["extensions"], &error["path"]), (&extensions, &json!(["search"])));
    // Other fields and other users are not affected.
    assert_eq!(query(&schema, "alice", "{ version }").await["data"]["version"], "1");
    assert_eq!(query(&schema, "bob", "{ search }").await["data"]["search"], "found");
}

#[tokio::test]
async fn cost_above_the_capacity_is_not_retryable() {
    let error = &query(&schema(limiter()), "alice", "{ costly }").await["errors"][0]["extensions"];
    assert_eq!((&error["code"], &error["retryAfterMs"]), (&json!("FAILED_PRECONDITION"), &Value::Null));
    assert_eq!(error["retryable"], false);
}

#[tokio::test]
async fn cost_above_the_local_share_is_retryable() {
    let store = FaultyStore::new(MemoryStore::new());
    store.faults().fail(StoreError::new(StoreErrorKind::Unavailable, "unplugged"));
    let limit = Limit::new(Quota::fixed_window(4, minutes(1)).unwrap()).on_store_error(OnStoreError::Local);
    let limiter =
        Limiter::builder().store(FallbackStore::new(store).expected_replicas(2)).limit("search", limit).build();
    let error = &query(&schema(limiter.unwrap()), "alice", "{ costly }").await["errors"][0]["extensions"];
    assert_eq!((&error["code"], &error["retryAfterMs"]), (&json!("RESOURCE_EXHAUSTED"), &Value::Null));
    assert_eq!(error["retryable"], true);
}

#[tokio::test]
async fn every_alias_is_counted() {
    let answer = query(&schema(limiter()), "alice", "{ a: search b: search c: search }").await;
    assert_eq!(answer["errors"].as_array().map(Vec::len), Some(1), "{answer}");
}

#[tokio::test]
async fn complexity_is_charged_before_fields_are_resolved() {
    let limiter = limiter();
    let schema = schema_with_complexity(limiter.enforcer("complexity").unwrap());
    // A complexity of five, and then of two.
    assert_eq!(query(&schema, "alice", "{ search }").await["data"]["search"], "found");
    assert_eq!(query(&schema, "alice", "{ a: version b: version }").await["data"]["a"], "1");
    let denied = query(&schema, "alice", "{ a: version b: version }").await;
    assert_eq!(denied["errors"][0]["extensions"]["code"], "RESOURCE_EXHAUSTED");
    assert_eq!(denied["errors"][0]["extensions"]["violatedPolicies"], json!(["complexity"]));
    assert_eq!(denied["data"], Value::Null);
    // The denied query took nothing.
    assert_eq!(query(&schema, "alice", "{ version }").await["data"]["version"], "1");
    assert_eq!(limiter.check("complexity", "alice").await.unwrap().remaining(), 0);
}

#[tokio::test]
async fn invalid_query_costs_nothing() {
    let limiter = limiter();
    let schema = schema_with_complexity(limiter.enforcer("complexity").unwrap());
    assert!(query(&schema, "alice", "{ nothing }").await["errors"][0]["extensions"].is_null());
    assert_eq!(limiter.check("complexity", "alice").await.unwrap().remaining(), 8);
}

#[tokio::test]
async fn shadow_mode_denies_no_query() {
    let limiter = limiter();
    let schema = schema_with_complexity(limiter.enforcer("complexity").unwrap().shadow(true));
    for _ in 0..2 {
        assert_eq!(query(&schema, "alice", "{ a: search version }").await["data"]["version"], "1");
    }
    assert_eq!(query(&schema, "alice", "{ version }").await["data"]["version"], "1");
}

#[tokio::test]
async fn request_without_a_caller_is_an_error_and_not_a_shared_budget() {
    for query in ["{ search }", "{ costly }"] {
        let answer = json_of(schema(limiter()).execute(Request::new(query)).await);
        assert_eq!(answer["errors"][0]["extensions"]["code"], "INTERNAL");
    }
    let schema_with_complexity = schema_with_complexity(limiter().enforcer("complexity").unwrap());
    let answer = json_of(schema_with_complexity.execute(Request::new("{ version }")).await);
    assert_eq!(answer["errors"][0]["extensions"]["code"], "INTERNAL");
}

#[tokio::test]
async fn unknown_limit_is_internal_and_leaks_no_names() {
    let error = query(&schema(limiter()), "u1", "{ misspelt }").await["errors"][0].clone();
    assert_eq!(error["extensions"]["code"], "INTERNAL");
    assert!(!error.to_string().contains("complexity"), "{error}");
}
