//! The error of an invalid quota.

/// The error of an invalid quota: the field, its value, and the accepted values.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} {value} is not accepted: expected {expected}")]
pub struct QuotaError {
    field: &'static str,
    value: String,
    expected: String,
}

impl QuotaError {
    /// Creates an error about `field`, whose `value` should have been `expected`.
    pub fn new(field: &'static str, value: impl ToString, expected: impl Into<String>) -> Self {
        QuotaError { field, value: value.to_string(), expected: expected.into() }
    }

    /// Returns the invalid field, by its name in configs.
    pub fn field(&self) -> &'static str {
        self.field
    }

    /// Returns the value of the field.
    pub fn value(&self) -> &str {
        &self.value
    }

    /// Returns a description of the accepted values.
    pub fn expected(&self) -> &str {
        &self.expected
    }
}
