//! What a function returns that was not let through.

use super::Refusal;

/// What a function with `#[limit]` can return, because it can be made of a refusal.
#[diagnostic::on_unimplemented(
    message = "a refusal by `#[limit]` cannot be made into `{Self}`",
    label = "this has no place for a refusal",
    note = "return a `Result` whose error is `tidegate::attribute::Refusal` or implements `From` of it",
    note = "with the feature `axum`, a `Response` and `impl IntoResponse` will do as well"
)]
pub trait FromRefusal {
    /// What is returned in place of what the function would have.
    fn from_refusal(refusal: Refusal) -> Self;
}

impl<T, E: From<Refusal>> FromRefusal for Result<T, E> {
    fn from_refusal(refusal: Refusal) -> Self {
        Err(E::from(refusal))
    }
}
