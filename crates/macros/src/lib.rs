//! The attribute `#[limit]`. Use it through `tidegate` with the feature `macros`: its code calls that crate.
#![forbid(unsafe_code)]

mod arguments;
mod expand;

use proc_macro::TokenStream;

/// Checks a limit before an async function or a handler begins, and returns early on a denial.
///
/// | argument | meaning |
/// | --- | --- |
/// | `"login"` | The name of the limit. First, and required. |
/// | `key = user_id` | The key. Required, so that no budget is shared by accident. `key = Key::GLOBAL` is one budget for all calls. A tuple is a key of several parts. |
/// | `cost = (items.len() as u64).max(1)` | The cost of a call. Defaults to 1. A cost of 0 is a programming error, which no client must be able to cause. |
/// | `limiter = self.limiter` | The limiter. Defaults to that of the layer above, or else the default limiter. |
/// | `also` | Counts in addition to the layer above, instead of replacing it: for functions that handlers call. |
///
/// `key`, `cost` and `limiter` are expressions over the function's arguments. They borrow, so the arguments stay available.
/// Mistakes are compile errors, except for an unknown limit name, which shows with the first call.
///
/// ```
/// use tidegate::attribute::LimitError;
/// use tidegate::{Limiter, limit};
///
/// struct Mailer {
///     limiter: Limiter,
/// }
///
/// impl Mailer {
///     #[limit("mail", key = (tenant, to), cost = (texts.len() as u64).max(1), limiter = self.limiter)]
///     async fn send(&self, tenant: &str, to: String, texts: Vec<String>) -> Result<(), LimitError> {
///         // Reached only when the limit admits the cost.
///         # let _ = (to, texts);
///         Ok(())
///     }
/// }
/// ```
///
/// The return value of a denied call, and the behaviour under a layer, are described in `tidegate::attribute`.
#[proc_macro_attribute]
pub fn limit(arguments: TokenStream, item: TokenStream) -> TokenStream {
    match syn::parse(arguments).and_then(|arguments| expand::expand(&arguments, item.clone().into())) {
        Ok(limited) => limited.into(),
        // With the unchanged function, so that its callers do not fail to compile, too.
        Err(error) => [TokenStream::from(error.into_compile_error()), item].into_iter().collect(),
    }
}
