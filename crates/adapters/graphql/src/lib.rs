#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

use std::sync::Arc;

use async_graphql::async_trait::async_trait;
use async_graphql::extensions::{Extension, ExtensionContext, ExtensionFactory, NextValidation};
use async_graphql::{Context, ErrorExtensionValues, Guard, ServerError, ValidationResult};
use tidegate::enforce::{Action, Caller, Enforcer, Outcome, OutcomeSummary};
use tidegate::{Error, Limiter};

/// An extension that takes a query's complexity from a limit, after validation and before any field is resolved.
#[derive(Debug, Clone)]
pub struct ComplexityLimit(Enforcer);

impl ComplexityLimit {
    /// Takes from the limits of an [`Enforcer`] (`limiter.enforcer("complexity")?`) or from a bare quota.
    pub fn new(limits: impl Into<Enforcer>) -> Self {
        ComplexityLimit(limits.into())
    }
}

impl ExtensionFactory for ComplexityLimit {
    fn create(&self) -> Arc<dyn Extension> {
        Arc::new(self.clone())
    }
}

#[async_trait]
impl Extension for ComplexityLimit {
    async fn validation(
        &self,
        context: &ExtensionContext<'_>,
        next: NextValidation<'_>,
    ) -> Result<ValidationResult, Vec<ServerError>> {
        let valid = next.run(context).await?;
        // The simplest query still costs 1.
        let outcome = take(&self.0, context.data_opt(), valid.complexity.max(1) as u64).await;
        if outcome.is_allowed() {
            return Ok(valid);
        }
        let (message, extensions) = error_parts(&outcome);
        let mut error = ServerError::new(message, None);
        error.extensions = Some(extensions);
        Err(vec![error])
    }
}

/// A guard that limits how often a field is resolved.
#[derive(Debug, Clone)]
pub struct FieldLimit {
    source: LimitSource,
    cost: u64,
}

#[derive(Debug, Clone)]
enum LimitSource {
    /// A limit of the limiter in the schema's data.
    Named(&'static str),
    Enforcer(Enforcer),
}

impl FieldLimit {
    /// Limits the field by a limit of the [`Limiter`] in the schema's data.
    pub fn new(limit: &'static str) -> Self {
        FieldLimit { source: LimitSource::Named(limit), cost: 1 }
    }

    /// Limits the field by the limits of an enforcer, with its hooks and modes.
    pub fn from_enforcer(enforcer: Enforcer) -> Self {
        FieldLimit { source: LimitSource::Enforcer(enforcer), cost: 1 }
    }

    /// Sets the cost of the field. Defaults to 1.
    #[must_use]
    pub fn cost(mut self, cost: u64) -> Self {
        self.cost = cost;
        self
    }
}

impl Guard for FieldLimit {
    async fn check(&self, context: &Context<'_>) -> async_graphql::Result<()> {
        let caller = context.data_opt();
        let outcome = match &self.source {
            LimitSource::Enforcer(enforcer) => take(enforcer, caller, self.cost).await,
            LimitSource::Named(limit) => match context.data_opt::<Limiter>() {
                Some(limiter) => match limiter.enforcer(*limit) {
                    Ok(enforcer) => take(&enforcer, caller, self.cost).await,
                    // The client must not read which limits there are.
                    Err(unknown) => Outcome::invalid(unknown.into()),
                },
                None => Outcome::invalid(Error::NoLimiter),
            },
        };
        if outcome.is_allowed() {
            return Ok(());
        }
        let (message, extensions) = error_parts(&outcome);
        let mut error = async_graphql::Error::new(message);
        error.extensions = Some(extensions);
        Err(error)
    }
}

async fn take(enforcer: &Enforcer, caller: Option<&Caller<'static>>, cost: u64) -> Outcome {
    match caller {
        Some(caller) => enforcer.apply(caller, cost, Action::Limit).await,
        None => enforcer.missing_key(),
    }
}

fn error_parts(outcome: &Outcome) -> (&'static str, ErrorExtensionValues) {
    let OutcomeSummary { code, message, retry_after_ms, retryable, violated_policies, .. } = outcome.summary();
    let mut extensions = ErrorExtensionValues::default();
    extensions.set("code", code);
    extensions.set("retryAfterMs", retry_after_ms);
    extensions.set("retryable", retryable);
    extensions.set("violatedPolicies", violated_policies);
    (message, extensions)
}
