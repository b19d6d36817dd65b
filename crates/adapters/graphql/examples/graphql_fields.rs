//! async-graphql: a field with a limit of its own, and queries that cost their complexity.
//!
//! `cargo run -p tidegate-graphql --example graphql_fields`

#![allow(clippy::print_stdout, reason = "an example talks")]

use std::error::Error;

use async_graphql::{EmptyMutation, EmptySubscription, Object, Request, Schema};
use tidegate::enforce::Caller;
use tidegate::{Limiter, Quota, minutes, seconds};
use tidegate_graphql::{ComplexityLimit, FieldLimit};

struct Query;

#[Object]
impl Query {
    async fn version(&self) -> &str {
        "1"
    }

    #[graphql(complexity = 10, guard = "FieldLimit::new(\"search\")")]
    async fn search(&self) -> &str {
        "found"
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let limiter = Limiter::builder()
        .limit("complexity", Quota::token_bucket(25, minutes(1))?)
        .limit("search", Quota::token_bucket(1, seconds(10))?)
        .build()?;
    let schema = Schema::build(Query, EmptyMutation, EmptySubscription)
        .extension(ComplexityLimit::new(limiter.enforcer("complexity")?))
        .data(limiter)
        .finish();

    for query in ["{ search }", "{ version search }", "{ version }", "{ a: search b: search }"] {
        // The HTTP handler knows the user, and passes it on.
        let response = schema.execute(Request::new(query).data(Caller::new("alice"))).await;
        println!("{query}: {}", response.data);
        for error in response.errors {
            let code = error.extensions.as_ref().and_then(|extensions| extensions.get("code"));
            println!("    {} ({})", error.message, code.map(ToString::to_string).unwrap_or_default());
        }
    }
    Ok(())
}
