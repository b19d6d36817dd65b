//! Limits for async-graphql: [`Complexity`], an extension for what whole queries cost, and [`Limited`], a guard for a field.
//!
//! ```
//! use async_graphql::{EmptyMutation, EmptySubscription, Object, Request, Schema};
//! use tidegate::enforce::{Caller, Enforcer};
//! use tidegate::graphql::{Complexity, Limited};
//! use tidegate::{Limiter, Quota, minutes, seconds};
//!
//! struct Query;
//!
//! #[Object]
//! impl Query {
//!     async fn version(&self) -> &str {
//!         "1"
//!     }
//!
//!     #[graphql(complexity = 50, guard = "Limited::by(\"search\")")]
//!     async fn search(&self, text: String) -> Vec<String> {
//!         vec![text]
//!     }
//! }
//!
//! # fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let limiter = Limiter::builder()
//!     .limit("complexity", Quota::token_bucket(1_000, minutes(1))?)
//!     .limit("search", Quota::token_bucket(2, seconds(1))?)
//!     .build()?;
//! let schema = Schema::build(Query, EmptyMutation, EmptySubscription)
//!     .extension(Complexity::new((&limiter, "complexity"))) // a query takes as much as it is complex
//!     .data(limiter) // for the guards
//!     .finish();
//!
//! // Who asks was found out by whoever has taken the request.
//! let request = Request::new("{ version }").data(Caller::new("alice"));
//! # let _ = schema.execute(request);
//! # Ok(()) }
//! ```
//!
//! What is turned away is an error with `code` among its extensions, the name of gRPC's code (`RESOURCE_EXHAUSTED`), and
//! `retryAfterMs`, `retryable` and `violatedPolicies`. A request without a [`Caller`] is refused as a mistake in the program.

use std::sync::Arc;

use async_graphql::async_trait::async_trait;
use async_graphql::extensions::{Extension, ExtensionContext, ExtensionFactory, NextValidation};
use async_graphql::{Context, ErrorExtensionValues, Guard, ServerError, ValidationResult};

use super::words::Words;
use crate::enforce::{Caller, Enforcer, Outcome, Step};
use crate::{Error, Limiter};

/// Takes from a limit what a query is complex, once it is known to be valid and before anything of it is resolved.
#[derive(Debug, Clone)]
pub struct Complexity(Enforcer);

impl Complexity {
    /// Takes from a limit of a limiter (`(&limiter, "complexity")`), a bare quota, or what an [`Enforcer`] has.
    pub fn new(limits: impl Into<Enforcer>) -> Self {
        Complexity(limits.into())
    }
}

impl ExtensionFactory for Complexity {
    fn create(&self) -> Arc<dyn Extension> {
        Arc::new(self.clone())
    }
}

#[async_trait]
impl Extension for Complexity {
    async fn validation(
        &self,
        context: &ExtensionContext<'_>,
        next: NextValidation<'_>,
    ) -> Result<ValidationResult, Vec<ServerError>> {
        let valid = next.run(context).await?;
        // What is as simple as can be costs something, too.
        let outcome = ask(&self.0, context.data_opt(), valid.complexity.max(1) as u64).await;
        if outcome.is_allowed() {
            return Ok(valid);
        }
        let (message, extensions) = said(&outcome);
        let mut error = ServerError::new(message, None);
        error.extensions = Some(extensions);
        Err(vec![error])
    }
}

/// A guard for a field: it is resolved if its limit admits that.
#[derive(Debug, Clone)]
pub struct Limited {
    limits: Limits,
    cost: u64,
}

#[derive(Debug, Clone)]
enum Limits {
    /// A limit of the limiter in the schema's data.
    Named(&'static str),
    These(Enforcer),
}

impl Limited {
    /// By a limit of the [`Limiter`] in the schema's data.
    pub fn by(limit: &'static str) -> Self {
        Limited { limits: Limits::Named(limit), cost: 1 }
    }

    /// By the limits of an enforcer, with its hooks and its modes.
    pub fn with(enforcer: Enforcer) -> Self {
        Limited { limits: Limits::These(enforcer), cost: 1 }
    }

    /// What the field costs: 1 unless said otherwise.
    #[must_use]
    pub fn cost(mut self, cost: u64) -> Self {
        self.cost = cost;
        self
    }
}

impl Guard for Limited {
    async fn check(&self, context: &Context<'_>) -> async_graphql::Result<()> {
        let caller = context.data_opt();
        let outcome = match &self.limits {
            Limits::These(enforcer) => ask(enforcer, caller, self.cost).await,
            Limits::Named(limit) => match context.data_opt::<Limiter>() {
                Some(limiter) => ask(&Enforcer::new(limiter, *limit), caller, self.cost).await,
                None => Outcome::invalid(Error::NoLimiter),
            },
        };
        if outcome.is_allowed() {
            return Ok(());
        }
        let (message, extensions) = said(&outcome);
        let mut error = async_graphql::Error::new(message);
        error.extensions = Some(extensions);
        Err(error)
    }
}

async fn ask(enforcer: &Enforcer, caller: Option<&Caller<'static>>, cost: u64) -> Outcome {
    match caller {
        Some(caller) => enforcer.ask(caller, cost, Step::Take).await,
        None => enforcer.without_key(),
    }
}

fn said(outcome: &Outcome) -> (&'static str, ErrorExtensionValues) {
    let Words { code, message, retry_after_ms, retryable, violated } = Words::of(outcome);
    let mut extensions = ErrorExtensionValues::default();
    extensions.set("code", code);
    extensions.set("retryAfterMs", retry_after_ms);
    extensions.set("retryable", retryable);
    extensions.set("violatedPolicies", violated);
    (message, extensions)
}
