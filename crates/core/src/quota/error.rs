//! What is wrong with a quota.

/// A quota that cannot be right: which field, its value, and what would be accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} {value} is not accepted: expected {expected}")]
pub struct QuotaError {
    field: &'static str,
    value: String,
    expected: String,
}

impl QuotaError {
    /// An error about `field`, whose `value` should have been `expected`.
    pub fn new(field: &'static str, value: impl ToString, expected: impl Into<String>) -> Self {
        QuotaError { field, value: value.to_string(), expected: expected.into() }
    }

    /// The field that is wrong, by its name in configs.
    pub fn field(&self) -> &'static str {
        self.field
    }

    /// The value it had.
    pub fn value(&self) -> &str {
        &self.value
    }

    /// What would be accepted.
    pub fn expected(&self) -> &str {
        &self.expected
    }
}
